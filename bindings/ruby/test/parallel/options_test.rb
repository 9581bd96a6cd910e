# frozen_string_literal: true

require_relative "../helper"

# Numo::Parallel: the options that programs for the gem parallel use.
class NumoParallelOptionsTest < NumoTest
  P = NUMO ? Numo::Parallel : nil

  def test_threads_of_this_process
    pids, numbers = P.map([1, 2, 3], in_threads: 2) { [Process.pid, P.worker_number] }.transpose
    assert_equal [Process.pid], pids.uniq
    assert_empty numbers - [0, 1]
    assert_nil P.worker_number
    both = Queue.new
    met = P.map([1, 2], in_threads: 2) { |n| both << n && Thread.pass until both.size == 2; n }
    assert_equal [1, 2], met
    assert_equal [2], P.map([2], in_threads: 0) { |n| n }
    assert_equal [[1, 0], [2, 1]], P.map_with_index([1, 2], in_threads: 2) { |*both| both }
  end

  def test_the_results_of_threads_are_the_objects_themselves
    returned = {}
    results = P.map([1, 2], in_threads: 2) { |n| returned[n] = Numo::Int32.new(3).fill(n) }
    assert_same returned[1], results[0]
    assert_same returned[2], results[1]
  end

  def test_errors_and_breaks_end_threads
    error = assert_raises(IndexError) do
      P.map([1, 2], in_threads: 2) { |n| n == 2 ? raise(IndexError, "two") : n }
    end
    assert_equal "two", error.message
    assert_raises(NotImplementedError) { P.each([1], in_threads: 1) { raise NotImplementedError } }
    assert_equal 4, P.map([1, 2], in_threads: 2) { |n| n == 2 ? raise(P::Break, 4) : n }
    assert_equal 5, P.map([1, 2], in_threads: 2) { |n| n == 2 ? raise(P::Kill, 5) : sleep }
    interrupted = Class.new(StandardError)
    caller = Thread.current
    begun = Queue.new
    Thread.new { begun.pop && caller.raise(interrupted) }
    assert_raises(interrupted) { P.each([1, 2], in_threads: 2) { begun << 1 && sleep } }
    assert_equal [Thread.current], Thread.list.select { |thread| thread.status == "run" }
  end

  def test_callbacks_hear_of_threads
    said = []
    options = { in_threads: 2, start: ->(item, i) { said << [item, i] },
                finish: ->(*all) { said << all }, finish_in_order: true }
    P.map([7, 8], options) { |n| n + 1 }
    assert_equal [[7, 0], [7, 0, 8], [8, 1], [8, 1, 9]], said.sort
  end

  # The worker of the job that failed takes no other one.
  def test_no_job_begins_when_one_has_failed
    assert_equal(1, begun { raise IndexError })
    assert_equal(1, begun { raise P::Break })
    assert_equal(1, begun { -> {} }, "its result cannot be dumped")
  end

  # So an error in finish: ends the call at once, and results do not pile up in front of it.
  def test_no_job_begins_before_finish_has_heard_of_the_one_before
    assert_equal(3, begun(finish: ->(item, *) { raise IndexError if item == 2 }) { 1 })
    assert_equal(3, begun(finish: ->(item, *) { raise P::Break if item == 2 }) { 1 })
  end

  # The number of jobs of 20 that begin, with one worker.
  def begun(**options)
    count = Numo::Shared.new(Numo::Int8, 1)
    P.map(0...20, in_processes: 1, **options) { (count[0] += 1) && yield }
    count[0]
  rescue IndexError, TypeError
    count[0]
  end

  def test_false_is_as_if_an_option_were_not_given
    names = %i[in_threads preserve_results start finish finish_in_order progress isolation]
    none = names.to_h { |name| [name, false] }
    assert_equal [2, 3],
                 P.map([1, 2], { **none, preserve_results: true, in_processes: 2 }) { |n| n + 1 }
    refute_includes P.map([1, 2], in_processes: false) { Process.pid }, Process.pid
  end

  def test_results_that_nobody_wants
    items = [1, 2]
    heard = []
    assert_same items, P.map(items, in_processes: 2, preserve_results: false) { |n| n }
    assert_same items, P.map(items, in_threads: 2, preserve_results: false) { |n| n }
    finish = ->(_, _, result) { heard << result }
    P.map(items, in_processes: 2, preserve_results: false, finish:) { |n| n * 5 }
    assert_equal [5, 10], heard.sort
  end

  def test_options_in_a_hash_and_an_index_among_them
    options = { in_processes: 2, with_index: true }.freeze
    assert_equal [[:a, 0], [:b, 1]], P.map(%i[a b], options) { |*both| both }
    assert_equal true, P.any?([1], options) { |n, i| n == 1 && i.zero? }
    assert_equal true, P.all?([1], { in_threads: 1 }) { true }
    assert_equal [1, 1, 2], P.flat_map([1, 2], { in_processes: 2 }) { |n| [1, n].take(n) }
  end

  def test_the_same_block_in_each
    assert_equal [0, 10, 20], P.in_processes(3) { |n| n * 10 }
    assert_equal [[0, 1], [0, 1, 2]], [P.in_threads { |n| n }, P.in_threads(count: 3) { |n| n }]
    assert_equal P.processor_count, P.in_processes { Process.pid }.uniq.size
    assert_equal 2, P.in_processes(count: 2, finish: ->(*) {}) { Process.pid }.uniq.size
  end

  def test_processors
    assert_equal Etc.nprocessors, P.processor_count
    assert_includes 1..P.processor_count, P.physical_processor_count
    ENV["PARALLEL_PROCESSOR_COUNT"] = "3"
    assert_equal [3, 3], [P.processor_count, P.map(1..9) { P.worker_number }.max + 1]
  end

  # A queue that others fill, and one whose items need the results of the others.
  def test_a_producer_that_waits
    queue = Queue.new
    done = Queue.new
    filler = Thread.new do
      [1, 2, 3].each { |item| (queue << item) && done.pop }
      queue << P::Stop
    end
    assert_equal [1, 4, 9], P.map(queue, in_processes: 2, finish: ->(*) { done << 1 }) { |n| n * n }
    filler.join
    count = 0
    producer = lambda do
      done.pop if count.positive?
      (count += 1) > 5 ? P::Stop : count
    end
    assert_equal [2, 3, 4, 5, 6],
                 P.map(producer, in_processes: 2, finish: ->(*) { done << 1 }) { |n| n + 1 }
  end

  # A queue that is never filled.
  def test_a_failing_block_ends_the_wait_for_a_producer
    [IndexError, NotImplementedError].each do |type|
      queue = Queue.new
      [1, 2].each { |item| queue << item }
      assert_raises(type) { P.each(queue, in_processes: 2) { |n| raise type if n == 2 } }
    end
    queue = Queue.new << 1
    assert_raises(Shmarray::WorkerLost) do
      P.each(queue, in_processes: 2) { Process.kill(:KILL, Process.pid) }
    end
    queue = Queue.new << 1
    assert_raises(IndexError) do
      P.map(queue, in_processes: 2, finish: ->(*) { raise IndexError }) { |n| n }
    end
    assert_equal(4, P.map(Queue.new << 1, in_processes: 2) { raise P::Break, 4 })
    assert_raises(Errno::ECHILD) { Process.wait }
  end

  def test_an_exception_of_a_producer
    [IndexError, NotImplementedError, SystemExit].each do |type|
      assert_raises(type) { P.map(-> { raise type }, in_processes: 2) { 1 } }
    end
    assert_equal [Thread.current], Thread.list
  end

  def test_leaving_a_block_by_a_jump
    jumps = [->(*) { P.map([1], in_processes: 1) { break 5 } },
             ->(*) { P.map([1], in_processes: 1) { throw :out } }]
    jumps.each do |jump|
      error = assert_raises(LocalJumpError) { catch(:out, &jump) }
      assert_match(/raise Numo::Parallel::Break/, error.message)
    end
    assert_equal [3], P.map([1], in_processes: 1) { next 3 }
    assert_equal 5, P.map([1], in_processes: 0) { break 5 }
  end

  def test_slices_with_options_in_a_hash
    whole = Numo::Shared.new(Numo::Int8, [2, 3])
    P.each_slice_of(whole, { in_processes: 2, axis: -1 }) { |column, i| column.fill(i) }
    assert_equal [[0, 1, 2]] * 2, whole.to_a
    assert_raises(ArgumentError) { P.each_slice_of(whole) }
  end

  def test_the_gems_name_of_a_dead_worker
    assert_raises(P::DeadWorker) { P.map([1], in_processes: 1) { exit!(1) } }
  end

  # As on kernels before Linux 5.3.
  def test_where_processes_have_no_fds_a_thread_waits_for_each
    Shmarray.define_singleton_method(:process_fd) { |_pid| nil }
    system("exit 3")
    assert_equal [1, 4, 9], P.map([1, 2, 3], in_processes: 2) { |n| n * n }
    assert_equal 4, P.map(1..4, in_processes: 2, isolation: true) { Process.pid }.uniq.size
    assert_equal 3, $?.exitstatus
    error = assert_raises(Shmarray::WorkerLost) do
      P.map([1], in_processes: 1) { Process.kill(:KILL, Process.pid) }
    end
    assert_match(/SIGKILL/, error.message)
    never, = IO.pipe
    assert_equal(4, P.map([1, 2], in_processes: 2) { |n| n == 1 ? raise(P::Kill, 4) : never.read })
    assert_equal [Thread.current], Thread.list
  end

  def test_an_interrupt_right_before_a_fork_leaves_no_pipe_open
    P.map([1], in_processes: 1) { 1 }
    collect
    before = Dir.children("/proc/self/fd").size
    pair = Shmarray::Pipe.method(:pair)
    Shmarray::Pipe.define_singleton_method(:pair) do
      pair.call.tap { Thread.current.raise(IndexError) }
    end
    3.times { assert_raises(IndexError) { P.map([1, 2], in_processes: 2) { 1 } } }
    collect
    assert_operator Dir.children("/proc/self/fd").size, :<=, before
  end

  def test_nothing_is_kept_open_for_processes_that_have_ended
    P.map([1], in_processes: 1) { 1 }
    collect # closes what other tests left to the collector
    before = Dir.children("/proc/self/fd").size
    count = 0
    [0...40, -> { (count += 1) > 40 ? P::Stop : count }].each do |source|
      most = 0
      finish = ->(*) { most = [most, Dir.children("/proc/self/fd").size].max }
      pids = P.map(source, in_processes: 2, isolation: true, finish:) { Process.pid }
      assert_equal 40, pids.uniq.size
      assert_operator most, :<, before + 20
      assert_operator Dir.children("/proc/self/fd").size, :<=, before
    end
  end
end
