# frozen_string_literal: true

# Measures the choices that lib/numo/parallel/thresholds.rb makes: the microseconds that a result
# takes with each, the least of several calls.

require "numo/shared"

THRESHOLDS = Numo::Parallel.const_get(:Thresholds)
ALWAYS = 0
NEVER = 1 << 40

# Runs the block with other thresholds.
def with(**thresholds)
  old = thresholds.keys.to_h { |name| [name, THRESHOLDS.const_get(name)] }
  set(thresholds)
  yield
ensure
  set(old)
end

def set(thresholds)
  thresholds.each do |name, value|
    THRESHOLDS.send(:remove_const, name)
    THRESHOLDS.const_set(name, value)
  end
end

# Returns the microseconds for each result of the block, in one worker.
def microseconds(count, &block)
  began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  results = Numo::Parallel.map(0...count, in_processes: 1, &block)
  results.each { |arrays| Array(arrays).each { |array| array[0] } }
  ((Process.clock_gettime(Process::CLOCK_MONOTONIC) - began) * 1e6) / count
end

# Prints a row: the choices take turns, so that a slow moment of the machine meets each.
def row(title, choices, rounds: 15, count: 200, &block)
  least = choices.transform_values { Float::INFINITY }
  rounds.times do
    choices.each do |name, thresholds|
      time = with(**thresholds) { microseconds(count, &block) }
      least[name] = [least[name], time].min
    end
  end
  puts "#{title}: #{least.map { |name, value| "#{name} #{value.round}" }.join(", ")}"
end

def kib(bytes)
  "#{bytes >> 10} KiB"
end

[8, 16, 32, 64, 128].map { |size| size << 10 }.each do |bytes|
  row("one array of #{kib(bytes)}",
      { "in band" => { ARRAYS_BYTES: NEVER },
        "by handle" => { ARRAYS_BYTES: ALWAYS, ARRAY_BYTES: ALWAYS, BUFFER_BYTES: NEVER } }) do
    Numo::UInt8.new(bytes).fill(1)
  end
end
[1, 2, 4, 8, 16, 32].map { |size| size << 10 }.each do |bytes|
  row("eight arrays of #{kib(bytes)} beside one of 256 KiB",
      { "in band" => { ARRAY_BYTES: 256 << 10, BUFFER_BYTES: NEVER },
        "by handle" => { ARRAY_BYTES: ALWAYS, BUFFER_BYTES: NEVER } }) do
    [Numo::UInt8.new(256 << 10).fill(1)] + Array.new(8) { Numo::UInt8.new(bytes).fill(1) }
  end
end
[32, 64, 128, 256, 1024, 4096].map { |size| size << 10 }.each do |bytes|
  row("one array of #{kib(bytes)}",
      { "worker's own memory" => { BUFFER_BYTES: NEVER },
        "buffer" => { BUFFER_BYTES: ALWAYS } }, count: 50) do
    Numo::UInt8.new(bytes).fill(1)
  end
end
