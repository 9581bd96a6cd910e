# frozen_string_literal: true

require_relative "../helper"

# Numo::Parallel in programs with traps, with containers of their own, and with a collector that is
# off or always on.
class NumoParallelHabitsTest < NumoTest
  P = NUMO ? Numo::Parallel : nil

  class Summed < ::Struct.new(:array)
    def marshal_dump = array.sum
    def marshal_load(sum) = self.array = sum
  end

  class Shouting < ::Array
    def map! = raise("map!")
    def initialize_copy(*) = raise("a copy")
  end

  class Sealed < ::Struct.new(:array)
    undef_method :[]=
  end

  module Marked
  end

  Holder = ::Struct.new(:name, :array)

  def large(number) = Numo::UInt8.new(50_000).fill(number)

  def test_containers_with_a_behaviour_of_their_own_are_marshals
    summed, shouting, sealed, marked, held = P.map([0, 1, 2, 3, 4], in_processes: 2) do |n|
      [Summed.new(large(2)), Shouting[large(3)], Sealed.new(large(4)), [large(5)].extend(Marked),
       Holder.new("h", large(6))][n]
    end
    assert_equal [100_000, 3, 4, 5, 6],
                 [summed.array, shouting[0][-1], sealed.array[-1], marked[0][-1], held.array[-1]]
    assert_equal [Shouting, true], [shouting.class, marked.is_a?(Marked)]
    assert_equal [false, true],
                 [sealed.array, held.array].map { |array| came_shared?(array) }
  end

  def test_a_small_array_that_is_kept_keeps_no_large_result
    before = bytes_held
    results = P.map(1..20, in_processes: 2) do |i|
      { image: Numo::UInt8.new(4 << 20).fill(i), row: Numo::DFloat.new(2000).fill(i),
        mean: Numo::DFloat[i] }
    end
    results = away { results.map { |result| result.values_at(:row, :mean) } }.tap { results = nil }
    collect
    assert_operator bytes_held - before, :<, 4 << 20
    assert_equal (1..20).map { |i| [i, i] }, results.map { |row, mean| [row[-1], mean[0]] }
  end

  def bytes_held
    listed_arrays.sum { |facts| facts[:segment_bytes] }
  end

  def test_results_of_many_small_arrays_go_in_band
    results = P.map([1], in_processes: 1) do
      [Array.new(100) { |i| Numo::Int32.new(100).fill(i) }, large(1)]
    end
    small, large = results.first
    assert_equal [false, true], [came_shared?(small[7]), came_shared?(large)]
    assert_equal (0...100).to_a, small.map { |array| array[-1] }
  end

  def test_a_call_in_a_handler_of_signals
    found = nil
    trap("USR1") do
      found = [P.map([1, 2], in_processes: 2) { |n| n * 2 },
               P.map(0...2, in_processes: 2, start: ->(*) {}) { |n| n }]
    end
    Process.kill(:USR1, Process.pid)
    Thread.pass until found
    assert_equal [[2, 4], [0, 1]], found
  end

  def test_a_block_may_rescue_an_interrupt_and_has_the_programs_handler
    assert_equal(["cleaned"], P.map([1], in_processes: 1) do
      begin
        Process.kill(:INT, Process.pid)
        sleep
      rescue Interrupt
        "cleaned"
      end
    end)
    heard = nil
    trap("INT") { heard = Process.pid }
    in_worker = P.map([1], in_processes: 1) do
      Process.kill(:INT, Process.pid) && (Thread.pass until heard) || (heard == Process.pid)
    end
    assert_equal [[true], nil], [in_worker, heard]
  end

  def test_the_programs_last_status_stays
    system("exit 3")
    P.map([1, 2], in_processes: 2, isolation: true) { |n| n }
    assert_equal 3, $?.exitstatus
  end

  def test_each_of_these_threads_is_another_and_the_first_error_ends_all
    counts = P.in_threads(4) { Thread.current[:count] = Thread.current[:count].to_i + 1 }
    assert_equal [1] * 4, counts
    assert_raises(IndexError) { P.in_threads(2) { |n| n.zero? ? raise(IndexError) : sleep } }
    assert_equal [Thread.current], Thread.list
  end

  # The answer about room comes after the worker has stopped waiting for it.
  def test_a_late_answer_about_room_is_no_job
    in_small_tmpfs("size=64m") do |dir|
      output, status = ruby(<<~'RUBY', env: { "SHMARRAY_DIR" => dir, "SHMARRAY_POOL_BYTES" => nil })
        require "numo/shared"
        require "timeout"
        arrays = Array.new(3) { Numo::Shared.new(Numo::UInt8, 18_000_000) }
        begun, tell = IO.pipe
        finish = ->(item, *) { begun.read(1) if item.zero? }
        ran = Numo::Parallel.map(0..7, in_processes: 2, start: ->(*) {}, finish:) do |i|
          if i == 1
            begin
              Timeout.timeout(0.1) { Numo::Shared.new(Numo::UInt8, 40_000_000) }
            rescue Timeout::Error, Errno::ENOSPC
              tell.write("x")
            end
          end
          [i, Process.pid]
        end
        puts ran.map(&:first).inspect, arrays.size
      RUBY
      assert_equal ["[0, 1, 2, 3, 4, 5, 6, 7]\n3\n", true], [output, status.success?]
    end
  end

  def test_a_collector_that_is_off_makes_room_where_there_is_none
    in_small_tmpfs("size=64m") do |dir|
      output, = ruby(<<~RUBY, env: { "SHMARRAY_DIR" => dir, "SHMARRAY_POOL_BYTES" => nil })
        require "numo/shared"
        GC.disable
        200.times { |i| Numo::Shared.new(Numo::UInt8, [1 << 20]).fill(i % 251) }
        puts GC.disable
      RUBY
      assert_equal "true\n", output
    end
  end

  def test_a_collector_that_always_runs_lets_others_wait
    output, = ruby(<<~RUBY)
      require "numo/shared"
      reader, writer = IO.pipe
      writer << "x"
      Numo::Parallel.processor_count
      GC.stress = true
      puts IO.select([reader])[0].size
      found = Numo::Parallel.map([1, 2], in_processes: 2) { |n| n }
      GC.stress = false
      puts found.inspect
    RUBY
    assert_equal "1\n[1, 2]\n", output
  end
end
