# frozen_string_literal: true

require_relative "../helper"

# Holds of Numo::Parallel's workers are released after their process has been waited for.
class NumoDeadWorkersTest < NumoTest
  BYTES = 3 << 20

  # Runs in a worker, which holds the array until it ends.
  def keep
    @array = Numo::Shared.new(Numo::UInt8, BYTES).fill(1)
  end

  def listed_bytes
    Shmarray.segments.sum { |facts| facts[:segment_bytes] }
  end

  def test_nothing_is_left_of_a_worker_that_dies_with_arrays
    20.times do
      assert_raises(Shmarray::WorkerLost) do
        Numo::Parallel.map([1, 2], in_processes: 2) { keep && Process.kill(:KILL, Process.pid) }
      end
      assert_equal 0, listed_bytes
    end
  end

  def test_nothing_is_left_of_workers_that_are_killed
    four = Numo::Parallel.map([1, 2], in_processes: 2) { keep && raise(Numo::Parallel::Kill, 4) }
    assert_equal 4, four
    assert_equal 0, listed_bytes
  end

  def test_nothing_is_left_of_workers_whose_caller_is_interrupted
    never, writer = IO.pipe
    begun, tell = IO.pipe
    thread = Thread.new do
      Numo::Parallel.each([1, 2], in_processes: 2) { keep && tell.write("x") && never.read }
    end
    begun.read(2)
    assert_operator listed_bytes, :>=, 2 * BYTES
    thread.kill.join
    assert_equal 0, listed_bytes
    writer.close
  end

  # A worker with a process of its own for one item, which exits without releasing anything.
  def test_a_new_worker_finds_the_memory_of_the_last_given_back
    most = 0
    start = ->(*) { most = [most, listed_bytes].max }
    Numo::Parallel.each(1..5, in_processes: 1, isolation: true, start:) do
      at_exit { exit!(0) }
      keep
      nil
    end
    assert_operator most, :<, 2 * BYTES
    assert_equal 0, listed_bytes
  end
end
