# frozen_string_literal: true

require "timeout"
require_relative "helper"

# Whatever ends a call of a channel, at any instant: its slot is free at once, or has a message. The
# collector gives nothing back here: it is off.
class ChannelInterruptsTest < SharedMemoryTest
  SLOTS = 4
  ROUNDS = 2000

  Stopped = Class.new(StandardError)

  CALLS = {
    "loan" => ->(c, _) { c.loan(timeout: 0, meta: "x") { |a| a.fill(1) } },
    "loan_of_a_view" => ->(c, _) { c.loan(timeout: 0) { |a| a[0, true].fill(1) } },
    "receive" => ->(c, _) { c.receive(timeout: 0) { |a| a[0, 1] } },
    "copy" => ->(c, _) { c.receive(timeout: 0) { |_, message| message.copy } },
    "first" => ->(c, _) { c.first },
    "each" => ->(c, _) { c.each { |_| break } },
    "send_array" => ->(c, array) { c.send_array(array, timeout: 0) }
  }.freeze

  def setup
    @arrays = {}
    channel = Shmarray::Channel.create("plain", :int32, [2, 3], slots: SLOTS)
    @arrays[channel] = Shmarray::Array.create(:int32, [2, 3])
    if NUMO
      channel = Numo::Shared::Channel.create("numo", Numo::Int32, [2, 3], slots: SLOTS)
      @arrays[channel] = Numo::Int32.zeros(2, 3)
    end
    GC.start
    GC.disable
  end

  def teardown
    GC.enable
  end

  def channels = @arrays.keys

  # Receives what is there, and then fills all slots.
  def assert_all_slots_free(channel, what)
    channel.receive { nil } while channel.ready?
    SLOTS.times do |number|
      channel.loan(timeout: 0) { |a| a.fill(number) }
    rescue Shmarray::TimeoutError
      flunk "#{number} of #{SLOTS} slots are free after #{what}"
    end
    SLOTS.times { channel.receive(timeout: 0) { nil } }
  end

  CALLS.each do |name, call|
    define_method("test_an_exception_at_each_step_of_#{name}") do
      channels.each do |channel|
        assert_operator stop_at_each_step(channel, call), :>, 5
      end
    end
  end

  # Raises at one step after the other, until a call has fewer. Returns how many there are.
  def stop_at_each_step(channel, call)
    (1..).each do |step|
      channel.loan { nil } # there is a message, and there are slots
      is_done = runs_before?(step) { call.call(channel, @arrays[channel]) }
      assert_all_slots_free(channel, "step #{step}")
      return step if is_done
    end
  end

  EVENTS = %i[line call return c_call c_return b_call b_return].freeze

  # Runs the block, and raises when it has come so far. Ruby looks for the exceptions of other
  # threads at the same places: where methods and blocks begin and return. Returns whether the block
  # came to its end before.
  def runs_before?(step)
    count = 0
    trace = TracePoint.new(*EVENTS) { raise Stopped if (count += 1) == step }
    trace.enable(target_thread: Thread.current) { yield }
    true
  rescue Stopped
    false
  end

  # As Timeout does, thousands of times, while what a thread waits for comes.
  ENDINGS = {
    "exceptions" => ->(thread) { thread.raise(Stopped) }, "kills" => ->(thread) { thread.kill }
  }.freeze

  ENDINGS.each do |what, ending|
    define_method("test_#{what}_of_receivers_leave_no_slot_taken") do
      channels.each do |channel|
        ROUNDS.times do
          receiver = waiter { channel.receive { |a| a[0, 0] } }
          rand(SLOTS + 1).times { channel.loan { |a| a.fill(1) } && maybe_pass }
          stop(receiver, ending)
          channel.receive { nil } while channel.ready?
        end
        assert_all_slots_free(channel, what)
      end
    end

    define_method("test_#{what}_of_senders_leave_no_slot_taken") do
      channels.each do |channel|
        ROUNDS.times do
          nil while can_loan?(channel)
          sender = waiter { channel.loan { |a| a.fill(1) } }
          rand(SLOTS + 1).times { channel.receive { maybe_pass } }
          stop(sender, ending)
        end
        assert_all_slots_free(channel, what)
      end
    end
  end

  def can_loan?(channel)
    channel.loan(timeout: 0) { nil }
  rescue Shmarray::TimeoutError
    nil
  end

  # Starts a thread that does the same for ever.
  def waiter
    thread = Thread.new { loop { yield } }
    thread.report_on_exception = false
    Thread.pass
    thread
  end

  def maybe_pass
    Thread.pass if rand(2).zero?
  end

  def stop(thread, ending)
    ending.call(thread)
    thread.join
  rescue Stopped
    nil
  end

  def test_a_thread_that_is_killed_in_a_block_gives_its_slot_back_at_once
    channels.each do |channel|
      [:loan, :receive].each do |method|
        channel.loan { nil } if method == :receive
        inside = Queue.new
        thread = Thread.new { channel.public_send(method) { inside.push(1) && sleep } }
        inside.pop
        thread.kill.join
        assert_all_slots_free(channel, method)
      end
    end
  end

  def test_the_exception_of_a_signal_handler_leaves_no_slot_taken
    channel = channels.first
    was = trap(:USR1) { raise Stopped }
    [:loan, :receive].each do |method|
      channel.loan { nil } if method == :receive
      assert_raises(Stopped) do
        channel.public_send(method) { Process.kill(:USR1, Process.pid) && sleep }
      end
      assert_all_slots_free(channel, method)
    end
  ensure
    trap(:USR1, was)
  end

  def test_a_timeout_ends_a_wait_and_a_block
    channels.each do |channel|
      assert_raises(Timeout::Error) { Timeout.timeout(0.01) { channel.receive { nil } } }
      assert_raises(Timeout::Error) { Timeout.timeout(0.01) { channel.loan { sleep } } }
      SLOTS.times { channel.loan { nil } }
      assert_raises(Timeout::Error) { Timeout.timeout(0.01) { channel.loan { nil } } }
      assert_raises(Timeout::Error) { Timeout.timeout(0.01) { channel.receive { sleep } } }
      assert_all_slots_free(channel, "timeouts")
    end
  end

  def test_a_block_that_is_left_in_any_way_gives_its_slot_back
    channels.each do |channel|
      SLOTS.times { channel.loan { nil } }
      channel.receive { break }
      catch(:out) { channel.receive { throw :out } }
      -> { channel.receive { return } }.call
      assert_raises(StopIteration) { channel.receive { raise StopIteration } }
      assert_all_slots_free(channel, "receive")
      channel.loan { break }
      catch(:out) { channel.loan { throw :out } }
      channel.loan { next }
      assert_raises(ArgumentError) { channel.loan(meta: "m" * 65) { nil } }
      assert_raises(LocalJumpError) { channel.loan }
      assert_raises(LocalJumpError) { channel.receive }
      assert_all_slots_free(channel, "loan")
    end
  end

  def test_an_enumerator_that_is_left_in_the_middle_has_no_slot
    channels.each do |channel|
      SLOTS.times { channel.loan { nil } }
      enumerator = channel.each
      2.times { enumerator.next }
      assert_all_slots_free(channel, "next")
    end
  end

  # Nothing runs when a fiber is dropped, so here it is the collector that gives back.
  def test_a_fiber_that_is_dropped_in_a_block_gives_its_slot_to_the_collector
    GC.enable
    channels.each do |channel|
      away { Fiber.new { channel.loan { Fiber.yield } }.resume }
      # The next block has the same object as this one, of which the stack may still tell.
      away { channel.loan { nil } }
      away { Fiber.new { channel.receive { Fiber.yield } }.resume }
      collect
      assert_all_slots_free(channel, "dropped fibers")
    end
  end
end
