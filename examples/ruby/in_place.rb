# frozen_string_literal: true

# Two processes compute complex objects; each writes its image into the parent's array.
#
#     . ci/env; ruby examples/ruby/in_place.rb
#
# ruby-numo/numo-narray#84 asks for this: the parent allocates [2, 3, 3], each child writes its [3,
# 3], and nothing is marshalled on the way back. Only the allocation differs from a program that
# loses what its children write.
require "numo/shared"

images = Numo::Shared.new(Numo::Int32, [2, 3, 3]) # was: Numo::Int32.zeros(2, 3, 3)

# With plain forks: a child has its parent's array.
pids = Array.new(2) { |i| fork { images[i, true, true] = Numo::Int32.new(3, 3).seq + 10 * i } }
pids.each { |pid| Process.wait(pid) }
p images

# The same with the gem parallel.
begin
  require "parallel"
  Parallel.each([0, 1], in_processes: 2) { |i| images[i, true, true].inplace * -1 }
  p images[1, 2, 2] # => -18
rescue LoadError
  puts "the gem parallel is not installed"
end

# The same with Numo::Parallel, which passes each block its part.
Numo::Parallel.each_slice_of(images, in_processes: 2) { |image, i| image.fill(i + 1) }
p images[true, 0, 0] # => Numo::Int32[1, 2]
