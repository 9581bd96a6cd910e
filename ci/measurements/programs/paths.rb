# Measures creating and attaching in Ruby: prints the seconds of one call as a line of JSON.
#
#     ruby paths.rb create BYTES COUNT; ruby paths.rb attach COUNT < handles, one a line
#
# The collector drops arrays. Its run after each hundred arrays, or each large one, is counted.
require "json"
require "shmarray"

LARGE = 1 << 24

def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

def seconds
  began = now
  yield
  now - began
end

def create(bytes, count)
  count.times do |number|
    Shmarray::Array.create(:uint8, [bytes])
    GC.start if bytes > LARGE || number % 100 == 99
  end
  GC.start
end

def create_row(bytes, count)
  create(bytes, count / 10 + 1)
  seconds { create(bytes, count) } / count
end

def attach_all(handles, arrays)
  seconds { handles.each { |handle| arrays << Shmarray::Array.attach(handle) } } / handles.size
end

# The first handle is attached before the clock starts: it pays for what a process does once.
def attach_rows(count)
  first, *handles = $stdin.readlines(chomp: true)
  kept = Shmarray::Array.attach(first)
  arrays = []
  row = { cold: attach_all(handles, arrays) }
  row[:held] = seconds { count.times { Shmarray::Array.attach(handles[0]) } } / count
  arrays.clear
  GC.start
  row[:again] = attach_all(handles, arrays)
  kept && row
end

what, *numbers = ARGV
numbers = numbers.map(&:to_i)
puts JSON.generate(what == "create" ? create_row(*numbers) : attach_rows(*numbers))
