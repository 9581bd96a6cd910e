# frozen_string_literal: true

# Frames come back through shared memory.
require "numo/shared"
require_relative "simulator"

PROCESSES = 2

in_rounds do
  Numo::Parallel.map(0...Simulator::FRAMES, in_processes: PROCESSES) do |number|
    SIMULATOR.step(number)
  end
end
