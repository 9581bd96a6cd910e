# frozen_string_literal: true

require_relative "../helper"

# Ctrl-C, and exceptions of other threads, at any instant of a call of Numo::Parallel: the call ends
# by that exception, prints nothing, and leaves no process and no thread.
class NumoInterruptsTest < NumoTest
  ROUNDS = ENV["SHMARRAY_TESTS"] ? 150 : 8
  # The approximate duration of a call in seconds.
  SPAN = 0.012
  # A process that waits longer has forgotten its interrupt.
  WATCHDOG = 60

  class << self
    def large(number) = Numo::UInt8.new(40_000).fill(number)

    def slowly_filled
      queue = Queue.new << 1
      Thread.new { [2, 3, Numo::Parallel::Stop].each { |item| queue << item && Thread.pass } }
      queue
    end
  end

  T = self
  CALLS = {
    "workers_that_take_turns" => ->(p) { p.map(0...6, in_processes: 3) { |i| T.large(i) } },
    "small_results" => ->(p) { p.map(0...6, in_processes: 2) { |i| i } },
    "workers_that_are_told" =>
      ->(p) { p.map(0...6, in_processes: 3, start: ->(*) {}, finish: ->(*) {}) { |i| T.large(i) } },
    "a_producer" => lambda do |p|
      p.map([T.large(1), T.large(2), p::Stop].method(:shift), in_processes: 2) { |array| array }
    end,
    "a_queue" => ->(p) { p.map(T.slowly_filled, in_processes: 2) { |i| i } },
    "isolation" => ->(p) { p.map(0...4, in_processes: 2, isolation: true) { |i| i } },
    "threads" => ->(p) { p.map(0...6, in_threads: 3) { |i| T.large(i) } },
    "calls_in_calls" => lambda do |p|
      p.map(0...2, in_processes: 2) { |i| p.map([i], in_processes: 1) { |n| T.large(n) } }
    end,
    "slices" => lambda do |p|
      array = Numo::Shared.new(Numo::Int32, [4, 100])
      p.each_slice_of(array, in_processes: 2) { |row, i| row.fill(i) }
    end,
    "errors" =>
      ->(p) { p.map(0...6, in_processes: 3) { |i| i == 5 ? raise("five") : i } rescue nil }
  }.freeze

  # A worker is interrupted, and its parent when the worker has ended.
  LATE_CALL = lambda do |p|
    p.map([Process.pid], in_processes: 1) do |parent|
      alive, worker = IO.pipe
      fork do
        worker.close
        alive.read # until the worker has ended
        IO.select(nil, nil, nil, 0.1) # as if the sender's processor had been taken away
        Process.kill(:INT, parent)
        exit!(true)
      end
      Process.kill(:INT, Process.pid) && sleep
    end
  end

  CALLS.each do |what, call|
    define_method("test_ctrl_c_at_any_instant_of_#{what}") do
      ROUNDS.times { interrupt(what, call) { |pid| Process.kill(:INT, -pid) } }
      sweep_after_deaths
    end

    define_method("test_an_exception_of_another_thread_at_any_instant_of_#{what}") do
      ROUNDS.times { interrupt(what, call) { |pid| Process.kill(:USR1, pid) } }
      sweep_after_deaths
    end
  end

  # The kernel signals the processes of a group one after the other.
  def test_a_ctrl_c_that_reaches_the_workers_first_is_an_interrupt
    interrupt("late", LATE_CALL) { |_| nil }
  end

  def test_an_interrupt_of_a_worker_alone_loses_it
    error = assert_raises(Shmarray::WorkerLost) do
      Numo::Parallel.map([1], in_processes: 1) { Process.kill(:INT, Process.pid) && sleep }
    end
    assert_match(/left with exit code 130/, error.message)
  end

  # The collector would close what nothing refers to, if it ran.
  def test_an_exception_as_a_workers_exit_is_opened_leaves_no_fd
    GC.disable
    fds = Dir.children("/proc/self/fd").size
    assert_raises(Interrupt) do
      interrupting_process_fd { CALLS["isolation"].call(Numo::Parallel) }
    end
    assert_equal fds, Dir.children("/proc/self/fd").size
  ensure
    GC.enable
  end

  private

  # Interrupts this thread within the opening of the third worker's exit, a successor's.
  def interrupting_process_fd
    exact = Shmarray.method(:process_fd)
    opened = 0
    Shmarray.define_singleton_method(:process_fd) do |pid|
      exact.call(pid).tap { Thread.current.raise(Interrupt) if (opened += 1) == 3 }
    end
    yield
  ensure
    Shmarray.singleton_class.send(:remove_method, :process_fd)
    Shmarray.define_singleton_method(:process_fd, exact)
    Shmarray.singleton_class.send(:private, :process_fd)
  end

  # Rubygems does not tolerate an interrupt while a file is loaded. Unreferenced objects have no fds
  # any more.
  def setup
    Numo::Parallel.processor_count
    collect
  end

  # Runs a process that calls repeatedly, in a group of its own, until the block has interrupted it.
  def interrupt(what, call)
    said, saying = IO.pipe
    ended, ending = IO.pipe
    pid = fork do
      $stderr.reopen(saying)
      call_until_interrupted(call, ending)
    end
    [saying, ending].each(&:close)
    assert_equal "b", ended.read(1)
    IO.select(nil, nil, nil, rand * SPAN)
    yield pid
    check_end(what, pid, said, ended)
  ensure
    [said, ended].each(&:close)
  end

  def call_until_interrupted(call, ending)
    Process.setpgrp
    relay_usr1
    fds = open_fds.size
    begin
      ending.syswrite("b")
      loop { call.call(Numo::Parallel) }
    rescue Interrupt
      ending.syswrite("i")
    end
    warn "processes are left" unless no_child?
    collect
    warn "fds are left" if open_fds.size > fds
    left = Thread.list.select { |thread| thread.backtrace.to_a.any?(/numo.parallel/) }
    warn "threads are left" if left.any?
    exit!(0)
  end

  # Raises as Timeout does.
  def relay_usr1
    main = Thread.current
    asked = Queue.new
    trap("USR1") { asked << 1 }
    Thread.new { asked.pop && main.raise(Interrupt) }
  end

  def open_fds
    Dir.children("/proc/self/fd")
  end

  def no_child?
    Process.wait
    false
  rescue Errno::ECHILD
    true
  end

  # The pipe ends when the last descendant has ended.
  def check_end(what, pid, said, ended)
    assert ended.wait_readable(WATCHDOG),
           "#{what}: waited #{WATCHDOG} s for the end of an interrupted process"
    assert_equal ["", "i", true], [said.read, ended.read, Process.wait2(pid)[1].success?], what
  ensure
    Process.kill(:KILL, -pid) rescue nil
  end
end
