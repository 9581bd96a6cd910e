# frozen_string_literal: true

# A slow simulator: each step results in a frame, one byte for each channel of a pixel.
class Simulator
  SHAPE = ARGV.include?("--small") ? [108, 192, 3] : [1080, 1920, 3]
  FRAMES = ARGV.include?("--small") ? 6 : 60

  def initialize
    @frame = Numo::UInt8.new(*SHAPE).seq
  end

  # Changes a few bytes of the last frame.
  def step(number)
    @frame[0...4, 0...4, true] = number % 256
    @frame
  end
end

SIMULATOR = Simulator.new

ROUNDS = ARGV.include?("--small") ? 2 : 7

# Runs round after round, as a long-running program does, and prints the median of their times. The
# parent looks at each frame.
def in_rounds
  result = nil
  seconds = Array.new(ROUNDS) do
    GC.start # the frames of the round before
    began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    frames = yield
    took = Process.clock_gettime(Process::CLOCK_MONOTONIC) - began
    result = frames.each_with_index.sum { |frame, i| frame[1, 1, 1] * i + frame[-1, -1, -1] }
    took
  end
  puts "result #{result}", "seconds #{seconds.sort[ROUNDS / 2]}"
end
