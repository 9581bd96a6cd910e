# frozen_string_literal: true

# Runs jobs of a library that forks. `ruby jobs.rb numo/shared|parallel` prints the names of all
# cases as a line of JSON. It answers each line {"case": …, "times": …} with the seconds of a call.

require "json"
require "numo/narray"
require ARGV.fetch(0)

MAP = ARGV[0] == "parallel" ? Parallel : Numo::Parallel
TWO = { in_processes: 2 }.freeze
LIST = Array.new(5_000) { |i| i * 7 }.freeze
TEXT = ("x" * (1 << 20)).freeze

def producer(count, item = nil)
  left = count
  -> { (left -= 1).negative? ? MAP::Stop : item || left }
end

def queue(count)
  Queue.new.tap { |items| [*0...count, MAP::Stop].each { |item| items << item } }
end

def arrays_of(number)
  Array.new(500) { Numo::Int32.new(10).fill(number) }
end

# The call of each case, and its expected result.
CASES = {
  "10,000 Integers" => [-> { MAP.map(0...10_000, **TWO) { |n| n + 1 } }, (1..10_000).to_a],
  "10,000 Strings" => [
    -> { MAP.map(0...10_000, **TWO) { |n| "item #{n}" } }, Array.new(10_000) { |n| "item #{n}" }
  ],
  "10,000 items, each" => [-> { MAP.each(0...10_000, **TWO) { |n| n + 1 } }, 0...10_000],
  "3,000 arrays of 10 elements" => [
    -> { MAP.map(0...3_000, **TWO) { |n| Numo::Int32.new(10).fill(n) }.map { |a| a[9] } },
    (0...3_000).to_a
  ],
  "300 Arrays of 5,000 Integers" => [-> { MAP.map(0...300, **TWO) { LIST.dup } }, [LIST] * 300],
  "100 Strings of 1 MB" => [-> { MAP.map(0...100, **TWO) { TEXT.dup } }, [TEXT] * 100],
  "3,000 Integers, start and finish" => [
    -> { MAP.map(0...3_000, **TWO, start: ->(*) {}, finish: ->(*) {}) { |n| n + 1 } },
    (1..3_000).to_a
  ],
  "3,000 Integers, finish" => [
    -> { MAP.map(0...3_000, **TWO, finish: ->(*) {}) { |n| n + 1 } }, (1..3_000).to_a
  ],
  "3,000 Integers of a Queue" => [
    -> { MAP.map(queue(3_000), **TWO) { |n| n }.sort }, (0...3_000).to_a
  ],
  "30 Strings of 1 MB of a producer" => [
    -> { MAP.map(producer(30, TEXT), **TWO, &:bytesize) }, [TEXT.bytesize] * 30
  ],
  "30 × 500 arrays of 10 elements" => [
    -> { MAP.map(0...30, **TWO) { |n| arrays_of(n) }.map { |list| list[-1][-1] } }, (0...30).to_a
  ],
  "3,000 Integers of a producer" => [
    -> { MAP.map(producer(3_000), **TWO) { |n| n }.sort }, (0...3_000).to_a
  ],
  "3 Integers" => [-> { MAP.map(0...3, **TWO) { |n| n + 1 } }, [1, 2, 3]]
}.freeze

def seconds_of(call, expected, times)
  before = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  found = Array.new(times) { call.call }.last
  seconds = Process.clock_gettime(Process::CLOCK_MONOTONIC) - before
  raise "wrong results" unless found == expected

  seconds / times
end

$stdout.sync = true
puts JSON.generate(CASES.keys)
$stdin.each_line do |line|
  asked = JSON.parse(line)
  puts seconds_of(*CASES.fetch(asked["case"]), asked["times"])
end
