# frozen_string_literal: true

# Two processes compute complex objects; each writes its image where the parent has it.
#
#     . ci/env; ruby examples/ruby/in_place.rb
#
# This is what ruby-numo/numo-narray#84 asks for: the parent allocates [2, 3, 3], each child writes its
# [3, 3], and nothing is marshalled on the way back.
require "numo/shared"

images = Numo::Shared.new(Numo::Int32, [2, 3, 3])

Numo::Parallel.each_slice_of(images, in_processes: 2) do |image, i|
  image.store(Numo::Int32.new(3, 3).seq + 10 * i)
end
p images

# The same with bare forks, and with the gem parallel: a child has what its parent had.
pids = Array.new(2) { |i| fork { images[i, true, true].inplace * -1 } }
pids.each { |pid| Process.wait(pid) }
p images[1, 2, 2] # => -18
