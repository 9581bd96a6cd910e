# frozen_string_literal: true

require_relative "helper"

# Channels: loans, messages, both modes, waits, deaths and bad input.
class ChannelTest < SharedMemoryTest
  def numbers(**options)
    Shmarray::Channel.create("numbers", :int32, [2], **options)
  end

  def other(**options)
    Shmarray::Channel.open("numbers", **options)
  end

  def post(channel, number, **options)
    channel.loan(**options) { |a| a.fill(number) }
  end

  def received(channel, **options)
    channel.receive(**options) do |a|
      assert_equal a[0], a[1], "a torn message"
      a[0]
    end
  end

  # Runs a block in a child, which is killed when it is done.
  def killed_after
    read, write = IO.pipe
    child = fork do
      yield
      write.write("x")
      sleep
    end
    read.read(1)
    Process.kill(:KILL, child)
    Process.wait(child)
  end

  def test_a_loan_becomes_a_message
    sends = numbers(slots: 2)
    receives = other
    before = Process.clock_gettime(Process::CLOCK_REALTIME, :nanosecond)
    assert_equal 0, post(sends, 7, meta: "left")
    assert_equal 1, post(sends, 8)
    message = receives.receive do |array, received|
      assert_equal 7, array[0]
      received
    end
    assert_equal [0, "left", 0, Encoding::BINARY],
                 [message.sequence, message.meta, message.missed, message.meta.encoding]
    assert_operator message.time_ns, :>=, before
    assert_raises(IOError) { message.keep }
    assert_raises(IOError) { message.copy }
    assert_equal [8, "", 1],
                 (receives.receive { |array, found| [array[0], found.meta, found.sequence] })
    assert_equal ["numbers", [2], "<i4", 2, :queue, false],
                 [sends.name, sends.shape, sends.dtype, sends.slots, sends.mode, sends.follower?]
  end

  def test_a_channel_is_handed_over_by_its_handle
    channel = numbers
    by_handle = Shmarray::Channel.open(channel.handle)
    assert_equal ["numbers", channel.handle], [by_handle.name, by_handle.handle]
    post(channel, 4)
    assert_equal 4, received(by_handle)
    Shmarray.unlink("numbers")
    assert_raises(Errno::ENOENT) { other }
    assert_equal "numbers", Shmarray::Channel.open(channel.handle, timeout: 1).name
  end

  def test_handles_that_are_no_channels_are_refused
    array = Shmarray::Array.create(:int32, [3])
    error = assert_raises(ArgumentError) { Shmarray::Channel.open(array.handle) }
    assert_match "it is an array's, not a channel's", error.message
    assert_raises(ArgumentError) { Shmarray::Array.attach(numbers.handle) }
    assert_raises(TypeError) { Shmarray::Channel.open(array) }
  end

  def test_a_loan_whose_block_raises_or_is_left_is_given_back
    channel = numbers(slots: 1)
    assert_raises(ZeroDivisionError) { channel.loan { 1 / 0 } }
    channel.loan { break }
    catch(:done) { channel.loan { throw :done } }
    refute_predicate channel, :ready?
    post(channel, 3, timeout: 0)
    assert_equal 3, received(channel)
  end

  def test_an_array_ends_with_its_block
    channel = numbers(slots: 1)
    array = nil
    channel.loan { |a| array = a }
    assert_raises(IOError) { array[0] = 1 }
    channel.receive { |a| array = a }
    assert_raises(IOError) { array[0] }
    assert_equal :result, (post(channel, 1) && channel.receive { :result })
  end

  def test_a_kept_array_keeps_its_slot_and_a_copy_does_not
    channel = numbers(slots: 1)
    post(channel, 7)
    copy = channel.receive { |_, message| message.copy }
    post(channel, 8, timeout: 0)
    kept = channel.receive { |_, message| message.keep }
    assert_raises(Shmarray::TimeoutError) { post(channel, 9, timeout: 0) }
    assert_equal [7, 8], [copy[0], kept[0]]
    kept.close
    post(channel, 9, timeout: 0)
  end

  def test_methods_of_enumerable_that_return_arrays_give_copies
    sends = numbers(slots: 2)
    receives = other
    thread = Thread.new do
      8.times { |number| post(sends, number) }
      sends.close
    end
    assert_equal 0, receives.first[0]
    assert_equal([1, 2], receives.first(2).map { |a| a[0] })
    assert_equal 3, receives.each.next[0]
    assert_equal 4, receives.find { |a| a[0] == 4 }[0]
    assert_equal([5, 6, 7], receives.to_a.map { |a| a[0] })
    thread.join
  end

  def test_blocks_and_lambdas_take_the_array_with_or_without_its_message
    sends = numbers
    receives = other
    6.times { |number| post(sends, number, meta: number.to_s) }
    assert_equal "0", (receives.receive { |_, message| message.meta })
    assert_equal 1, receives.receive(&->(array) { array[0] })
    assert_equal "2", receives.receive(&->(_, message) { message.meta })
    assert_equal 3.0, receives.receive(&:mean)
    sends.close
    assert_equal [[4, 0], [5, 1]], receives.each_with_index.map { |a, i| [a[0], i] }
  end

  # A block that takes no message gets none, and one that might take it has it.
  def test_each_kind_of_block_gets_the_message_if_it_takes_one
    sends = numbers(slots: 8)
    receives = other
    3.times do # a place of the program is looked at once
      8.times { |number| post(sends, number, meta: number.to_s) }
      assert_equal "0", (receives.receive { |_, message = nil| message.meta })
      assert_equal [1, "1"], (receives.receive { |*all| [all[0][0], all[1].meta] })
      assert_equal 2, (receives.receive { |array,| array[0] })
      assert_equal 3, (receives.receive { _1[0] })
      assert_equal [4, "4"], (receives.receive { [_1[0], _2.meta] })
      assert_equal 5, (receives.receive { |array; local| local = array[0] })
      assert_equal :none, (receives.receive { :none })
      assert_nil(receives.receive { |(array)| array.is_a?(Integer) ? array : nil })
    end
  end

  def test_a_block_of_a_text_gets_what_it_takes
    channel = numbers(slots: 2)
    250.times do |number|
      post(channel, number, meta: number.to_s)
      block = number.even? ? "{ |a| a[0] }" : "{ |_, m| m.meta.to_i }"
      text = "channel.receive #{block}"
      assert_equal number, eval(text, binding, __FILE__, __LINE__)
    end
  end

  def test_blocks_within_blocks_have_slots_of_their_own
    sends = numbers(slots: 4)
    receives = other
    5.times do
      sends.loan do |outer|
        sends.loan { |inner| inner[] = 2 }
        assert_raises(IndexError) { sends.loan { raise IndexError } }
        sends.loan { break }
        outer[] = 1
        outer.close
      end
      receives.receive do |outer|
        receives.receive { |inner| assert_equal [2, 1], [outer[0], inner[0]] }
        assert_equal 2, outer[0]
      end
      refute_predicate receives, :ready?
    end
    4.times { post(sends, 3, timeout: 0) } # all slots are free
  end

  def test_threads_that_share_a_channel_have_the_metadata_of_their_own_messages
    channel = numbers(slots: 8)
    sends = other
    seen = Queue.new
    threads = Array.new(4) do
      Thread.new do
        channel.each do |array, message|
          Thread.pass
          seen << [array[0], message.meta.to_i, message.sequence]
        end
      end
    end
    500.times { |number| post(sends, number, meta: number.to_s) }
    sends.close
    threads.each(&:join)
    assert_equal Array.new(500) { |number| [number] * 3 }, Array.new(seen.size) { seen.pop }.sort
  end

  def test_the_stream_ends_after_what_was_sent
    sends = numbers
    receives = other
    5.times { |number| post(sends, number) }
    sends.close
    assert_equal [0, 1, 2, 3, 4], receives.map { |a| a[0] }
    assert_refused(EOFError, /closed/) { received(receives) }
    assert_equal [], receives.each.to_a
  end

  def test_an_enumerator_takes_as_many_as_it_is_asked_for
    sends = numbers
    receives = other
    5.times { |number| post(sends, number) }
    assert_equal [0, 1], receives.lazy.map { |a| a[0] }.first(2)
    assert_equal 2, received(receives)
  end

  def test_a_broadcast_goes_to_all_and_counts_what_was_missed
    sends = numbers(mode: :broadcast, slots: 2, when_full: :drop_oldest)
    quick = other
    slow = other
    late = other(receive: false)
    5.times do |number|
      post(sends, number)
      assert_equal number, received(quick)
    end
    assert_equal [3, 3], (slow.receive { |array, message| [array[0], message.missed] })
    refute_predicate late, :ready?
    post(sends, 9)
    assert_equal 9, received(late)
  end

  def test_one_that_opens_a_broadcast_late_has_its_history
    sends = numbers(mode: :broadcast)
    5.times { |number| post(sends, number) }
    late = other(history: 2)
    assert_raises(ArgumentError) { other(history: 2, receive: false) }
    assert_raises(ArgumentError) { other(history: -1) }
    sends.close
    seen = []
    late.each { |a, message| seen << [a[0], message.missed] }
    assert_equal [[3, 0], [4, 0]], seen
    queue = Shmarray::Channel.create("queue", :int32, [2])
    error = assert_raises(ArgumentError) { Shmarray::Channel.open(queue.handle, history: 1) }
    assert_match(/history/, error.message)
  end

  def test_an_end_that_was_handed_over_counts_before_the_child_opens_it
    receives = numbers
    sends = other
    handle, io = sends.hand_over
    child = fork do
      mine = Shmarray::Channel.open(handle)
      3.times { |number| post(mine, number) }
      mine.close
      exit!(0)
    end
    [sends, io].each(&:close)
    assert_equal [0, 1, 2], (receives.map { |a| a[0] })
    refute_predicate receives, :sender_died?
    assert_predicate Process.wait2(child)[1], :success?
  end

  def test_the_latest_value_is_read_as_often_as_one_likes
    sends = numbers(mode: :latest, slots: 3)
    reads = other
    assert_equal :latest, reads.mode
    refute reads.wait_newer(timeout: 0)
    4.times { |number| post(sends, number, timeout: 0) }
    kept = Array.new(2) { reads.receive { |_, message| message.keep } } # one of them is a copy
    sequence = reads.receive { |_, message| message.sequence }
    assert_operator (reads.receive { |_, message| message.age }), :<, 3600
    assert_equal 3, sequence
    refute reads.wait_newer(sequence, timeout: 0.01)
    refute_predicate reads, :ready?
    (4..9).each { |number| post(sends, number, timeout: 0) }
    assert reads.wait_newer(sequence)
    assert_predicate reads, :ready?
    assert_equal [[3, 3]] * 2, kept.map(&:to_a)
    sends.close
    assert_equal [9], (reads.map { |a| a[0] })
    assert_equal 9, received(reads)
    assert_raises(EOFError) { reads.wait_newer(9) }
    refute_predicate reads, :sender_died?
    queue = Shmarray::Channel.create("queue", :int32, [2])
    assert_raises(ArgumentError) { queue.wait_newer }
  end

  def test_each_goes_over_the_latest_values_that_are_newer
    sends = numbers(mode: :latest)
    post(sends, 0)
    seen = []
    other.each do |a|
      seen << a[0]
      break if seen.size == 5

      post(sends, seen.size)
    end
    assert_equal [0, 1, 2, 3, 4], seen
  end

  def test_full_channels_wait_or_raise
    waits = numbers(slots: 1)
    post(waits, 1)
    [0, 0.02].each do |seconds|
      assert_raises(Shmarray::TimeoutError) { post(waits, 2, timeout: seconds) }
    end
    raises = Shmarray::Channel.create("other", :int32, [2], slots: 1, when_full: :error)
    post(raises, 1)
    assert_raises(Shmarray::Full) { post(raises, 2) }
    assert_operator Shmarray::Full, :<, Shmarray::Error
  end

  def test_a_sender_that_has_waited_is_told_who_has_the_slots
    channel = numbers(slots: 3)
    array = Shmarray::Array.create(:int32, [2])
    kept = post(channel, 1) && channel.receive { |_, message| message.keep }
    post(channel, 2)
    waits = [-> { channel.loan(timeout: 0.02) { nil } },
             -> { channel.send_array(array, timeout: 0.02) }]
    who = "process #{Process.pid} has 1 on loan and 1 received, 1 wait for a receiver"
    channel.loan do
      waits.each { |wait| assert_equal "#{NO_SLOT}: 0.02 s; #{who}", timed_out(&wait) }
      assert_equal "#{NO_SLOT}: 0 s", timed_out { channel.loan(timeout: 0) { nil } }
    end
    kept.close
  end

  NO_SLOT = "no slot was free in that time"

  def timed_out(&block)
    assert_raises(Shmarray::TimeoutError, &block).message
  end

  # As Thread#join takes them.
  TIMEOUTS = {
    "none" => nil, "endless" => Float::INFINITY, "huge" => 2**70, "a Float beyond time" => 1e300,
    "a Rational" => 60r
  }.freeze
  OVER = { "negative" => -1, "endlessly negative" => -Float::INFINITY, "zero" => 0 }.freeze

  # The calls that wait: each returns at once while there is a message and a slot.
  WAITS = {
    "loan" => ->(c, _, t) { c.loan(timeout: t) { nil } },
    "send_array" => ->(c, a, t) { c.send_array(a, timeout: t) },
    "receive" => ->(c, _, t) { c.receive(timeout: t) { nil } },
    "ready?" => ->(c, _, t) { c.ready?(t) || raise(Shmarray::TimeoutError) },
    "open" => ->(c, _, t) { Shmarray::Channel.open(c.name, timeout: t).close },
    "Pipe#receive" => lambda do |_, _, t|
      here, there = Shmarray::Pipe.pair
      there.send_arrays("x", timeout: t)
      here.receive(timeout: t) { nil }
    end
  }.freeze

  def test_every_wait_takes_the_timeouts_that_join_takes
    assert Thread.new { nil }.join(Float::INFINITY)
    channel = numbers(slots: 8)
    array = Shmarray::Array.create(:int32, [2])
    3.times { post(channel, 1) }
    WAITS.each do |name, wait|
      TIMEOUTS.merge(OVER).each do |what, timeout|
        assert wait.call(channel, array, timeout) || true, "#{name}: #{what}"
        post(channel, 1) while channel.ready? == false
        received(channel) if name.match?(/loan|send/)
      end
      assert_raises(ArgumentError, name) { wait.call(channel, array, Float::NAN) }
      ["1", true, Object.new].each do |other|
        assert_raises(TypeError, name) { wait.call(channel, array, other) }
      end
    end
  end

  def test_a_negative_timeout_is_over_at_once
    channel = numbers(slots: 1)
    array = Shmarray::Array.create(:int32, [2])
    OVER.each_value do |timeout|
      assert_raises(Shmarray::TimeoutError) { received(channel, timeout: timeout) }
      refute channel.ready?(timeout)
      assert_raises(Errno::ENOENT) { Shmarray::Channel.open("none", timeout: timeout) }
      post(channel, 1)
      assert_raises(Shmarray::TimeoutError) { post(channel, 1, timeout: timeout) }
      assert_raises(Shmarray::TimeoutError) { channel.send_array(array, timeout: timeout) }
      received(channel)
    end
  end

  def test_a_wait_without_end_ends_with_what_it_waits_for
    channel = numbers(slots: 1)
    [Float::INFINITY, 2**70].each do |endless|
      receiver = Thread.new { received(channel, timeout: endless) }
      post(channel, 1)
      receiver.join
      post(channel, 2)
      sender = Thread.new { post(channel, 3, timeout: endless) }
      assert_equal [2, 3], Array.new(2) { received(channel) }
      sender.join
    end
  end

  def test_shapes_vary_and_arrays_may_lie_elsewhere
    channel = Shmarray::Channel.create("images", :uint8, [4, 5], varying: true)
    channel.loan(shape: [3, 2]) { |a| assert_equal [3, 2], a.shape }
    channel.receive { |a| assert_equal [3, 2], a.shape }
    assert_raises(ArgumentError) { channel.loan(shape: [5, 5]) { flunk } }

    arrays = Shmarray::Channel.create_by_handle("arrays")
    assert_equal [nil, nil], [arrays.shape, arrays.dtype]
    a = Shmarray::Array.create(:float64, [10])
    a.fill(1.5)
    assert_same arrays, arrays.send_array(a, meta: "x")
    a.close
    arrays.receive { |b| assert_equal [1.5] * 10, b.to_a }
  end

  def test_other_threads_run_while_one_waits
    sends = numbers
    receives = other
    thread = Thread.new { received(receives) }
    post(sends, 5)
    assert_equal 5, thread.value
    waiting = Thread.new { received(receives) }
    Thread.pass until waiting.stop? || waiting.status == "run"
    waiting.kill
    assert_nil waiting.value
  end

  def test_a_signal_ends_a_wait
    read, write = IO.pipe
    child = fork do
      channel = numbers
      trap(:USR1) { raise Interrupt }
      write.write("x")
      channel.receive { nil }
    rescue Interrupt
      exit!(7)
    end
    read.read(1)
    Process.kill(:USR1, child)
    assert_equal 7, Process.wait2(child)[1].exitstatus
    Shmarray.sweep # it ended without its exit handlers
  end

  def test_its_io_is_readable_while_there_is_something
    sends = numbers
    receives = other
    assert_nil IO.select([receives], nil, nil, 0)
    post(sends, 1)
    assert IO.select([receives])
    assert receives.ready?(nil)
    assert_equal 1, received(receives)
    assert_nil IO.select([receives], nil, nil, 0)
    sends.close
    assert IO.select([receives])
  end

  def test_a_child_has_an_io_of_its_own
    sends = numbers(mode: :broadcast)
    receives = other
    io = receives.to_io
    read, write = IO.pipe
    child = fork do
      write.write("x") unless receives.to_io.equal?(io) || IO.select([receives], nil, nil, 0)
      write.close
      IO.select([receives])
      exit!(received(receives) == 5 ? 7 : 1)
    end
    write.close
    assert_equal "x", read.read(1)
    post(sends, 5)
    assert_equal 7, Process.wait2(child)[1].exitstatus
    assert IO.select([io])
    assert_equal 5, received(receives)
    assert_same io, receives.to_io
    Shmarray.sweep # the child ended without its exit handlers
  end

  # A fiber scheduler of the few hooks that these fibers need.
  class Scheduler
    def initialize
      @waiting = {}
      @ready = []
    end

    def fiber(&block)
      Fiber.new(blocking: false, &block).tap(&:resume)
    end

    def io_wait(io, _events, _timeout)
      @waiting[Fiber.current] = io
      Fiber.yield
      IO::READABLE
    end

    def kernel_sleep(_seconds = nil)
      @ready << Fiber.current
      Fiber.yield
    end

    def block(*) = raise("nothing here blocks")
    def unblock(*) = nil

    def close
      until @waiting.empty? && @ready.empty?
        readable, = IO.select(@waiting.values, nil, nil, @ready.empty? ? nil : 0)
        fibers = @waiting.keys.select { |fiber| readable&.include?(@waiting[fiber]) }
        fibers.each { |fiber| @waiting.delete(fiber) }
        (fibers + @ready.slice!(0..)).each(&:resume)
      end
    end
  end

  def test_fibers_wait_for_several_channels_at_once
    sends = %w[one two three].map { |name| Shmarray::Channel.create(name, :int32, [1], slots: 16) }
    got = []
    Thread.new do
      Fiber.set_scheduler(Scheduler.new)
      sends.each_with_index do |channel, index|
        receives = Shmarray::Channel.open(channel.name)
        Fiber.schedule { receives.each { |a| got << [index, a[0]] } }
      end
      Fiber.schedule do
        5.times do |number|
          sends.each { |channel| channel.loan { |a| a[0] = number } }
          sleep 0
        end
        sends.each(&:close)
      end
    end.join
    assert_equal [0, 1, 2].product((0...5).to_a).sort, got.sort
  end

  def test_a_killed_process_costs_the_others_nothing
    channel = numbers(slots: 1)
    killed_after { Fiber.new { other.loan { Fiber.yield } }.resume }
    post(channel, 1)
    assert_equal 1, received(channel)
  end

  def test_a_dead_sender_is_told_apart_from_one_that_closed
    receives = numbers
    killed_after { post(other, 1) }
    assert_equal 1, received(receives)
    refute_predicate receives, :sender_died?
    assert_refused(EOFError, /died/) { received(receives) }
    assert_predicate receives, :sender_died?
    Process.wait(fork { post(other, 2) })
    assert_equal 2, received(receives)
    assert_empty receives.to_a
    refute_predicate receives, :sender_died?
    assert_refused(EOFError, /closed/) { received(receives) }
  end

  def test_each_does_not_take_an_error_of_its_block_for_the_end_of_the_stream
    [EOFError, StopIteration].each do |error|
      receives = numbers
      2.times { |number| post(receives, number) }
      assert_raises(error) { receives.each { raise error, "of the block" } }
      assert_equal 1, received(receives)
      receives.close
    end
  end

  def test_one_waits_for_a_channel_that_is_not_there_yet
    assert_raises(Errno::ENOENT) { other }
    assert_raises(Shmarray::TimeoutError) { other(timeout: 0.02) }
    opened = Thread.new { other(timeout: nil) }
    channel = numbers
    post(channel, 4)
    assert_equal 4, received(opened.value)
  end

  def test_what_no_channel_can_have_is_refused
    channel = numbers(slots: 1)
    assert_raises(Errno::EEXIST) { numbers }
    assert_equal "numbers", numbers(exist_ok: true, slots: 1).name
    { slots: 0, ends: 5000, mode: :other, when_full: :x, file_mode: 0o644 }.each do |name, value|
      text = assert_raises(ArgumentError) do
        Shmarray::Channel.create("b", :int32, [2], **{ name => value })
      end.message
      assert_includes text, name.to_s
    end
    assert_raises(ArgumentError) { Shmarray::Channel.create("b c", :int32, [2]) }
    assert_raises(TypeError) { Shmarray::Channel.create("b", :text, [2]) }
    assert_raises(TypeError) { channel.send_array(Shmarray::Array.create(:float64, [2])) }
    assert_raises(ArgumentError) { channel.send_array(Shmarray::Array.create(:int32, [3])) }
    assert_raises(TypeError) { channel.send_array([1, 2]) }
    assert_raises(ArgumentError) { channel.loan(meta: "m" * 65) { nil } }
    post(channel, 1, timeout: 0, meta: "m" * 64)
    channel.close
    assert_predicate channel, :closed?
    assert_raises(IOError) { received(channel) }
    array = Shmarray::Array.create(:int32, [2], name: "array")
    assert_raises(ArgumentError) { Shmarray::Channel.open("array") }
    array.close
  end
end
