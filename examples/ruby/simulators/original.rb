# frozen_string_literal: true

# Frames come back as bytes through a pipe, as with the gem parallel.
require "numo/narray"
require_relative "simulator"

PROCESSES = 2

# A child that answers numbers with frames, its ends of the pipes, and a thread here that asks.
def start(numbers, frames)
  from_parent, to_child = IO.pipe(binmode: true)
  from_child, to_parent = IO.pipe(binmode: true)
  pid = fork do
    [to_child, from_child].each(&:close)
    Marshal.dump(SIMULATOR.step(Marshal.load(from_parent)), to_parent) until from_parent.eof?
    exit!
  end
  [from_parent, to_parent].each(&:close)
  Thread.new { ask(numbers, frames, to_child, from_child) && Process.wait(pid) }
end

def ask(numbers, frames, to_child, from_child)
  while (number = numbers.pop)
    Marshal.dump(number, to_child)
    frames[number] = Marshal.load(from_child)
  end
  to_child.close
  from_child.close
  true
end

in_rounds do
  numbers = Queue.new
  Simulator::FRAMES.times { |number| numbers << number }
  numbers.close
  frames = []
  Array.new(PROCESSES) { start(numbers, frames) }.each(&:join)
  frames
end
