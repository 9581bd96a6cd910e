# frozen_string_literal: true

# Sends frames of 1920 × 1080 × 3 bytes from two processes to their parent in three ways: by Marshal
# through a pipe, as the gem parallel does; returned from Numo::Parallel.map; and written in place.
# Each way also runs with a block that does the same and returns nil. "page fault" is what it costs
# to write a page of shared memory for the first time, minus the second time.
#
#   ruby frames.rb FRAMES ROUNDS      prints a line of JSON: the seconds of each way, by round
#
# A block changes a few bytes of its frame before it returns it. The parent checks each frame.

require "json"
require "tempfile"
require "numo/shared"

Warning[:experimental] = false # IO::Buffer
FRAMES, ROUNDS = ARGV.map { |word| Integer(word) }
SHAPE = [1080, 1920, 3].freeze
PROCESSES = 2
FRAME = Numo::UInt8.new(*SHAPE).seq
WHOLE = Numo::Shared.new(Numo::UInt8, [FRAMES, *SHAPE])

# The work of a block, before anything is sent.
def step(number)
  FRAME[0...4, 0...4, true] = number % 256
  FRAME
end

# A thread of the parent asks each worker, as in the gem parallel.
def by_marshal(&block)
  numbers = Queue.new.tap { |queue| FRAMES.times { |number| queue << number } }.close
  frames = []
  workers = Array.new(PROCESSES) { start(&block) }
  threads = workers.map do |pid, to_child, from_child|
    Thread.new { ask(numbers, frames, to_child, from_child) && Process.wait(pid) }
  end
  threads.each(&:join)
  frames
end

def start
  from_parent, to_child = IO.pipe(binmode: true)
  from_child, to_parent = IO.pipe(binmode: true)
  pid = fork do
    [to_child, from_child].each(&:close)
    Marshal.dump(yield(Marshal.load(from_parent)), to_parent) until from_parent.eof?
    exit!
  end
  [from_parent, to_parent].each(&:close)
  [pid, to_child, from_child]
end

def ask(numbers, frames, to_child, from_child)
  while (number = numbers.pop)
    Marshal.dump(number, to_child)
    frames[number] = Marshal.load(from_child)
  end
  [to_child, from_child].each(&:close)
end

def by_map(&block)
  Numo::Parallel.map(0...FRAMES, in_processes: PROCESSES, &block)
end

def in_place
  Numo::Parallel.each_slice_of(WHOLE, in_processes: PROCESSES) do |frame, number|
    yield frame, number
  end
  (0...FRAMES).map { |number| WHOLE[number, false] }
end

WAYS = {
  "Marshal" => -> { by_marshal { |number| step(number) } },
  "Marshal, nil" => -> { by_marshal { |number| step(number) && nil } },
  "map" => -> { by_map { |number| step(number) } },
  "map, nil" => -> { by_map { |number| step(number) && nil } },
  "in place" => -> { in_place { |frame, number| frame.store(step(number)) } },
  "in place, nil" => -> { in_place { |_frame, number| step(number) && nil } }
}.freeze

# The seconds of each page of a frame's memory.
def page_fault
  Tempfile.create("page-fault", "/dev/shm") do |file|
    file.truncate(FRAME.size)
    memory = IO::Buffer.map(file)
    cold, warm = Array.new(2) { seconds { memory.clear(1) } }
    memory.free
    (cold - warm) / (FRAME.size / 4096.0)
  end
end

def seconds
  began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  yield
  Process.clock_gettime(Process::CLOCK_MONOTONIC) - began
end

def check(frames)
  frames.each_with_index do |frame, number|
    right = frame[3, 3, 2] == number % 256 && frame[-1, -1, -1] == FRAME[-1, -1, -1]
    abort "frame #{number} is wrong" unless right
  end
end

# The first round is not reported: it makes the segments that the others reuse. Nothing starts the
# collector, as programs do not either: a collection would empty the pool.
measured = WAYS.transform_values { [] }
measured["page fault"] = []
(ROUNDS + 1).times do |round|
  WAYS.each do |name, way|
    frames = nil
    took = seconds { frames = way.call }
    check(frames) unless name.end_with?("nil")
    measured[name] << took unless round.zero?
  end
  measured["page fault"] << page_fault unless round.zero?
end
puts JSON.generate(measured)
