# frozen_string_literal: true

# Ruby and Python work on one array: Ruby creates it, Python fills it, Ruby reads it.
#
#     . ci/env; ruby examples/ruby/with_python/ruby.rb
require "numo/shared"

field = Numo::Shared.new(Numo::DFloat, [3, 4])
IO.popen(["python", File.join(__dir__, "python.py")], "r+") do |python|
  python.puts Numo::Shared.handle(field)            # a line of text is all that goes there
  # The mean that Python sees after it has filled the array.
  puts python.gets
  field[1, true] = 0                                # Ruby writes, Python sees it
  python.puts "look"
  puts python.gets
end
p field.sum # => 44.0
