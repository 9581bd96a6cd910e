# frozen_string_literal: true

require_relative "helper"

# Channels with a fiber scheduler: every call that waits lets other fibers run.
class ChannelFibersTest < SharedMemoryTest
  # A scheduler of IO.select and a pipe, which other threads write to.
  class Scheduler
    def initialize
      @waiting = {}
      @blocked = {}
      @until = {}
      @ready = Queue.new
      @wakes, @wake = IO.pipe
    end

    def fiber(&block)
      Fiber.new(blocking: false, &block).tap(&:resume)
    end

    def io_wait(io, _events, timeout)
      @waiting[Fiber.current] = io
      park(timeout) { IO::READABLE }
    end

    def kernel_sleep(seconds = nil)
      block(nil, seconds)
    end

    def block(_blocker, timeout = nil)
      @blocked[Fiber.current] = true
      park(timeout) { true }
    end

    def unblock(_blocker, fiber)
      @ready << fiber
      @wake.write("x")
    end

    def close
      until @waiting.empty? && @blocked.empty? && @ready.empty?
        readable, = IO.select([*@waiting.values, @wakes], nil, nil, patience)
        @wakes.read_nonblock(100, exception: false)
        fibers = @waiting.keys.select { |fiber| readable&.include?(@waiting[fiber]) }
        fibers << @ready.pop until @ready.empty?
        over = @until.keys.select { |fiber| @until[fiber] <= now }
        fibers.each { |fiber| resume(fiber, true) }
        (over - fibers).each { |fiber| resume(fiber, false) }
      end
    end

    private

    def park(timeout)
      raise RangeError, timeout if timeout && timeout > 1e12 # as IO.select has it

      @until[Fiber.current] = now + timeout if timeout
      Fiber.yield ? yield : false
    ensure
      forget(Fiber.current) # also if an exception ended its wait
    end

    def resume(fiber, result)
      fiber.resume(result) if forget(fiber)
    end

    # Returns whether the fiber waited.
    def forget(fiber)
      @until.delete(fiber)
      [@waiting, @blocked].filter_map { |all| all.delete(fiber) }.any?
    end

    def patience
      return 0 unless @ready.empty?

      @until.values.min&.then { |first| [first - now, 0].max }
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end

  # Runs blocks in fibers of one thread. The watchdog's time is that of a thread that is blocked.
  def in_fibers(*blocks)
    thread = Thread.new do
      Thread.current.report_on_exception = false
      Fiber.set_scheduler(Scheduler.new)
      blocks.each { |block| Fiber.schedule(&block) }
    end
    assert thread.join(60), "a fiber blocks the others"
  end

  def numbers(**options)
    Shmarray::Channel.create("numbers", :int32, [1], slots: 2, **options)
  end

  def test_a_loan_that_waits_lets_the_receiver_run
    channel = numbers
    got = []
    in_fibers(-> { 9.times { |number| channel.loan { |a| a[0] = number } } },
              -> { 9.times { got << channel.receive { |a| a[0] } } })
    assert_equal [*0...9], got
  end

  def test_the_block_of_a_loan_runs_in_its_fiber
    channel = numbers
    fibers = []
    in_fibers(-> { 4.times { channel.loan { fibers << Fiber.current } } },
              -> { 4.times { channel.receive { nil } } })
    assert_equal 1, fibers.uniq.size
  end

  def test_send_array_and_ready_let_others_run
    channel = numbers
    array = Shmarray::Array.create(:int32, 1)
    seen = []
    in_fibers(-> { 5.times { channel.send_array(array) } },
              -> { 5.times { seen << channel.ready?(nil) && channel.receive { nil } } })
    assert_equal [true] * 5, seen
  end

  def test_arrays_by_handle_are_sent_while_others_run
    channel = Shmarray::Channel.create_by_handle("arrays", slots: 1)
    array = Shmarray::Array.create(:int32, 1)
    got = 0
    in_fibers(-> { 5.times { channel.send_array(array) } },
              -> { 5.times { channel.receive { got += 1 } } })
    assert_equal 5, got
  end

  def test_one_waits_for_a_channel_that_another_fiber_makes
    opened = nil
    made = nil
    in_fibers(-> { opened = Shmarray::Channel.open("numbers", timeout: nil) },
              -> { made = numbers })
    assert_equal [made.handle, "numbers"], [opened.handle, opened.name]
  end

  def test_a_timeout_ends_each_wait_of_a_fiber
    channel = numbers
    2.times { channel.loan { nil } }
    empty = Shmarray::Channel.create("empty", :int32, [1])
    array = Shmarray::Array.create(:int32, 1)
    others = 0
    waits = [-> { channel.loan(timeout: 0.02) { flunk } },
             -> { empty.receive(timeout: 0.02) { flunk } },
             -> { channel.send_array(array, timeout: 0.02) },
             -> { Shmarray::Channel.open("none", timeout: 0.02) }]
    ends = []
    in_fibers(*waits.map { |wait| -> { ends << assert_raises(Shmarray::TimeoutError, &wait) } },
              -> { others += 1 })
    assert_equal [4, 1, false], [ends.size, others, empty.ready?(0.01)]
  end

  def test_an_endless_timeout_is_none
    channel = numbers
    got = []
    [Float::INFINITY, 2**70, nil].each do |endless|
      in_fibers(-> { 5.times { |n| channel.loan(timeout: endless) { |a| a[0] = n } } },
                -> { 5.times { got << channel.receive(timeout: endless) { |a| a[0] } } })
    end
    assert_equal [*0...5] * 3, got
  end

  def test_an_exception_ends_the_wait_of_a_fiber_and_takes_no_slot
    channel = numbers
    2.times { channel.loan { nil } }
    error = Class.new(StandardError)
    before = Thread.list
    thread = Thread.new do
      Thread.current.report_on_exception = false
      Fiber.set_scheduler(Scheduler.new)
      waiting = Fiber.schedule { channel.loan { flunk } }
      waiting.raise(error)
    end
    assert_raises(error) { thread.join }
    waits = (Thread.list - before - [thread]).reject { |other| other.join(60) }
    assert_empty waits, "a thread still waits for the fiber"
    2.times { channel.receive(timeout: 0) { nil } }
    2.times { channel.loan(timeout: nil) { nil } }
  end

  def test_a_closed_channel_ends_the_wait_of_a_fiber
    channel = numbers
    2.times { channel.loan { nil } }
    error = nil
    in_fibers(-> { error = assert_raises(IOError) { channel.loan { flunk } } },
              -> { channel.close })
    assert_match(/closed/, error.message)
  end

  def test_metadata_and_what_is_kept_belong_to_the_message_of_a_fiber
    channel = Shmarray::Channel.create("numbers", :int32, [1], slots: 6)
    seen = []
    receive = lambda do
      3.times do
        channel.receive do |array, message|
          sleep 0 # another fiber receives meanwhile
          kept = message.keep
          seen << [array[0], message.meta.to_i, message.copy[0], kept[0]]
          kept.close
        end
      end
    end
    in_fibers(receive, receive, -> { 6.times { |n| channel.loan(meta: n.to_s) { |a| a[0] = n } } })
    assert_equal Array.new(6) { |number| [number] * 4 }, seen.sort
  end
end
