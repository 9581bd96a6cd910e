# frozen_string_literal: true

require_relative "helper"
require_relative "call_everything"

# Channels whose arrays are Numo's.
class NumoChannelTest < NumoTest
  include CallEverything

  def test_frames_are_filled_and_read_in_place
    sends = Numo::Shared::Channel.create("frames", Numo::SFloat, [2, 3], slots: 2)
    receives = Numo::Shared::Channel.open("frames")
    sends.loan(meta: "left") do |frame|
      assert_instance_of Numo::SFloat, frame
      frame[true, true] = [[0, 1, 2], [3, 4, 5]]
    end
    sends.send_array(Numo::SFloat.ones(2, 3))
    sends.close
    found = []
    receives.each { |frame, message| found << [frame.sum, message.meta, message.sequence] }
    assert_equal [[15.0, "left", 0], [6.0, "", 1]], found
    assert_raises(TypeError) { Numo::Shared::Channel.create("bits", Numo::Bit, [2]) }
  end

  def test_a_frame_ends_with_its_block_unless_it_is_kept
    channel = Numo::Shared::Channel.create("frames", Numo::Int32, [2, 3], slots: 2)
    frame = nil
    channel.loan { |a| (frame = a).fill(1) }
    assert_over(frame, "loan")
    channel.receive { |a| frame = a }
    assert_over(frame, "receive")
    channel.loan { |a| a.fill(2) }
    kept = channel.receive { |_, message| message.keep }
    channel.loan { |a| a.fill(3) }
    copy = channel.receive { |_, message| message.copy }
    assert_equal [2 * 6, 3 * 6], [kept.sum, copy.sum]
    channel.loan { |a| a.fill(4) }
    assert_equal 24, channel.first.sum
    assert_equal 12, kept.sum
  end

  VIEWS = {
    "itself" => ->(a) { a },
    "rows" => ->(a) { a[0..1, true] },
    "row" => ->(a) { a[1, true] },
    "columns" => ->(a) { a[true, 1..2] },
    "element" => ->(a) { a[1..1, 2..2] },
    "steps" => ->(a) { a[true, (0..-1) % 2] },
    "index array" => ->(a) { a[[2, 0], true] },
    "transpose" => ->(a) { a.transpose },
    "swapaxes" => ->(a) { a.swapaxes(0, 1) },
    "reverse" => ->(a) { a.reverse },
    "flatten" => ->(a) { a.flatten },
    "diagonal" => ->(a) { a.diagonal },
    "expand_dims" => ->(a) { a.expand_dims(0) },
    "slice" => ->(a) { a.slice(1, true) },
    "view" => ->(a) { a.view },
    "inplace" => ->(a) { a.inplace },
    "view of a view" => ->(a) { a.transpose[0..1, true].reverse }
  }.freeze

  # All of Numo's ways to the elements go through one function, which finds none.
  USES = {
    "to_a" => ->(v) { v.to_a }, "sum" => ->(v) { v.sum }, "[]" => ->(v) { v[0] },
    "each" => ->(v) { v.each { nil } }, "dup" => ->(v) { v.dup }, "+" => ->(v) { v + 1 },
    "cast" => ->(v) { Numo::DFloat.cast(v) }, "to_binary" => ->(v) { v.to_binary },
    "Marshal" => ->(v) { Marshal.dump(v) }, "[]=" => ->(v) { v[0] = 1 },
    "fill" => ->(v) { v.fill(1) }, "store" => ->(v) { v.store(1) }, "seq" => ->(v) { v.seq },
    "inplace" => ->(v) { v.inplace + 1 }, "eq" => ->(v) { v.eq(1) },
    "store_binary" => ->(v) { v.store_binary("x" * v.byte_size) }
  }.freeze

  def assert_over(view, what)
    USES.each { |name, use| assert_raises(RuntimeError, "#{what}: #{name}") { use.call(view) } }
    [:share, :handle, :handle_to_send].each do |name|
      assert_raises(IOError, "#{what}: #{name}") { Numo::Shared.public_send(name, view) }
    end
  end

  def test_views_end_with_the_block
    channel = Numo::Shared::Channel.create("frames", Numo::Int32, [3, 3], slots: 2)
    VIEWS.each do |name, take|
      loaned = nil
      channel.loan { |a| loaned = take.call(a.fill(7)) }
      assert_over(loaned, "loan: #{name}")
      assert_over(channel.receive { |a| take.call(a) }, "receive: #{name}")
      2.times { channel.loan(timeout: 0) { |a| a.fill(8) } }
      2.times { assert_equal(8 * 9, channel.receive(timeout: 0) { |a| a.sum }) }
    end
  end

  # What a method returns, or leaves in its receiver, never has the next message's elements.
  def test_no_method_crashes_or_shows_another_message
    channel = Numo::Shared::Channel.create("frames", Numo::Int32, [3, 3], slots: 1)
    calls = in_child do
      methods = Numo::Int32.instance_methods - Object.instance_methods - SPARED + HIDDEN
      methods.product(KINDS_OF_VIEWS, arguments).count do |method, kind, arguments|
        channel.loan { |a| a.fill(7) }
        view = channel.receive { |a| VIEWS[kind].call(a) }
        channel.loan { |a| a.fill(123_457) }
        shown = shown_by(view, method, arguments)
        channel.receive { |a| assert_equal [123_457] * 9, a.flatten.to_a }
        refute_includes shown, "123457", "#{kind} #{method} #{arguments}"
        true
      end
    end
    assert_operator calls, :>, 10_000
  end

  KINDS_OF_VIEWS = ["itself", "rows", "index array", "transpose", "inplace"].freeze

  def shown_by(view, method, arguments)
    result = view.send(method, *arguments) { 1 }
    [result, view].map { |one| one.is_a?(Numo::NArray) ? one.to_a : one }.inspect
  rescue StandardError, NotImplementedError, SystemStackError, NoMemoryError => error
    error.message
  end

  def test_views_of_a_kept_frame_keep_the_slot
    channel = Numo::Shared::Channel.create("frames", Numo::Int32, [3, 3], slots: 2)
    VIEWS.each do |name, take|
      channel.loan { |a| a.fill(7) }
      away do
        view = channel.receive { |a, message| message.keep && take.call(a) }
        channel.loan { |a| a.fill(8) }
        collect
        assert_raises(Shmarray::TimeoutError) { channel.loan(timeout: 0) { flunk } }
        assert_equal [7], view.to_a.flatten.uniq, name
        channel.receive { nil }
        nil
      end
      collect
      2.times { channel.loan(timeout: 0) { nil } }
      2.times { channel.receive(timeout: 0) { nil } }
    end
  end

  # The message is large enough to be copied without Ruby's lock.
  def test_a_frame_that_another_thread_copies_keeps_the_slot_meanwhile
    channel = Numo::Shared::Channel.create("frames", Numo::UInt8, [4 << 20], slots: 1)
    20.times do |number|
      channel.loan { |a| a.fill(number) }
      ready = Queue.new
      thread = channel.receive do |a|
        copying = Thread.new do
          ready << 1
          Numo::Shared.share(a)
        rescue IOError
          nil
        end
        ready.pop
        Thread.pass
        copying
      end
      channel.loan { |a| a.fill(200) }
      channel.receive { nil }
      copy = thread.value
      assert_equal [number, number], copy.minmax if copy
    end
  end

  def test_a_frame_is_copied_where_something_outlives_the_block
    channel = Numo::Shared::Channel.create("frames", Numo::Int32, [2, 3], slots: 1)
    by_handle = Numo::Shared::Channel.create_by_handle("by_handle")
    channel.loan { |a| a.fill(7) }
    shared, text, parallel, wrapped, plain = channel.receive do |a|
      assert_refused(ArgumentError, /slot of a channel/) { Numo::Shared.handle(a) }
      by_handle.send_array(a[0, true])
      [Numo::Shared.share(a), Marshal.dump(Numo::Shared::Reference.new(a.transpose)),
       Numo::Parallel.map([0], in_processes: 1) { [a, a[1, true]] }.first,
       Shmarray::Array.wrap(a), a.dup]
    end
    channel.loan { |a| a.fill(8) }
    found = [shared, Marshal.load(text), *parallel, by_handle.receive { |a| a.dup }, plain]
    assert_equal [[7]] * 6, (found.map { |a| a.to_a.flatten.uniq })
    assert_predicate wrapped, :closed?
  end

  def test_arrays_that_lie_elsewhere_arrive_as_they_are
    arrays = Numo::Shared::Channel.create_by_handle("arrays")
    a = Numo::Shared.new(Numo::Int32, [2, 3])
    arrays.send_array(a)
    arrays.send_array(Numo::DFloat[1, 2])
    arrays.receive { |b| b[1, 2] = 7 }
    assert_equal 7, a[1, 2]
    arrays.receive { |b| assert_equal Numo::DFloat[1, 2], b }
  end

  def test_a_child_works_on_what_its_parent_sends
    requests = Numo::Shared::Channel.create("requests", Numo::Int64, [3])
    answers = Numo::Shared::Channel.create("answers", Numo::Int64, [3])
    child = fork do
      requests.each { |a| answers.send_array(a * 2) }
      answers.close
    end
    10.times do |number|
      requests.loan { |a| a.fill(number) }
      answers.receive { |a| assert_equal [2 * number] * 3, a.to_a }
    end
    requests.close
    Process.wait(child)
    assert_predicate $?, :success?
  end
end
