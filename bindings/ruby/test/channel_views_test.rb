# frozen_string_literal: true

require_relative "helper"

# What a block of a channel leaves behind never shows another message: it is closed, or it keeps the
# slot.
class ChannelViewsTest < SharedMemoryTest
  VIEWS = {
    "row" => ->(a) { a[0] },
    "columns" => ->(a) { a[true, 1..] },
    "steps" => ->(a) { a[true, (0..) % 2] },
    "transpose" => ->(a) { a.transpose },
    "reshape" => ->(a) { a.reshape(3, 2) },
    "view" => ->(a) { a.view([2], [4]) },
    "view of a view" => ->(a) { a[1].view([2], [4]) },
    "itself" => ->(a) { a }
  }.freeze

  USES = {
    "[]" => ->(v) { v[0] }, "[]=" => ->(v) { v[nil] = 0 }, "fill" => ->(v) { v.fill(0) },
    "each" => ->(v) { v.each { nil } }, "map!" => ->(v) { v.map! { 0 } },
    "to_a" => ->(v) { v.to_a },
    "sum" => ->(v) { v.sum }, "dup" => ->(v) { v.dup }, "to_bytes" => ->(v) { v.to_bytes },
    "==" => ->(v) { v == Shmarray::Array.create(:int32, 1) }, "hash" => ->(v) { v.hash },
    "shape" => ->(v) { v.shape }, "transpose" => ->(v) { v.transpose },
    "handle" => ->(v) { v.handle },
    "save_npy" => ->(v) { Shmarray.save_npy("/dev/null", v) }
  }.freeze

  def setup
    @channel = Shmarray::Channel.create("numbers", :int32, [2, 3], slots: 2)
  end

  def post(number, channel = @channel)
    channel.loan(timeout: 0) { |a| a.fill(number) }
  end

  def assert_both_slots_free
    2.times { |number| post(number) }
    2.times { @channel.receive(timeout: 0) { nil } }
  end

  def assert_closed(view, what)
    assert_predicate view, :closed?, what
    USES.each { |name, use| assert_raises(IOError, "#{what}: #{name}") { use.call(view) } }
  end

  def test_views_end_with_the_block
    VIEWS.each do |name, take|
      loaned = nil
      @channel.loan { |a| loaned = take.call(a.fill(1)) }
      assert_closed(loaned, "loan: #{name}")
      received = @channel.receive { |a| take.call(a) }
      assert_closed(received, "receive: #{name}")
      assert_both_slots_free
    end
  end

  def test_a_frozen_array_ends_with_the_block
    post(1)
    frozen = @channel.receive { |a| [a.freeze, a[0]] }
    frozen.each { |a| assert_closed(a, "frozen") }
    assert_both_slots_free
  end

  def test_views_of_a_kept_array_keep_the_slot
    VIEWS.each do |name, take|
      post(7)
      before = after = nil
      @channel.receive do |a, message|
        before = take.call(a)
        after = take.call(message.keep)
      end
      post(8)
      assert_raises(Shmarray::TimeoutError, name) { post(9) }
      collect
      assert_raises(Shmarray::TimeoutError, name) { post(9) }
      assert_equal [[7], [7]], [before, after].map { |view| view.to_a.flatten.uniq }, name
      [before, after].each(&:close)
      collect
      post(9)
      2.times { @channel.receive(timeout: 0) { nil } }
    end
  end

  def test_a_kept_array_that_is_dropped_gives_its_slot_back
    post(7)
    away { @channel.receive { |_, message| message.keep } && nil }
    collect
    assert_both_slots_free
  end

  # Ruby's buffers have an address, which nobody can take from them.
  def test_exported_memory_keeps_the_slot
    post(7)
    buffer = @channel.receive { |a| a[1].to_io_buffer }
    post(8)
    assert_raises(Shmarray::TimeoutError) { post(9) }
    assert_equal [7, 7, 7], buffer.get_string.unpack("l*")
    buffer = nil
    collect
    post(9)
  rescue NameError => error
    skip error.message
  end

  def test_a_memory_view_keeps_the_slot_until_it_is_released
    require "fiddle"
    post(7)
    view = @channel.receive { |a| Fiddle::MemoryView.new(a[1]) }
    post(8)
    assert_raises(Shmarray::TimeoutError) { post(9) }
    assert_equal [7, 7, 7], Array.new(3) { |index| view[index] }
    view.release
    post(9)
  end

  def test_a_loop_over_elements_that_the_block_leaves_behind_keeps_the_slot
    post(7)
    elements = @channel.receive { |a| a.each.tap(&:next) }
    post(8)
    assert_raises(Shmarray::TimeoutError) { post(9) }
    assert_equal 7, elements.next
  end

  # The message is large enough to be copied without Ruby's lock.
  def test_a_copy_in_another_thread_is_whole_though_the_block_ends
    channel = Shmarray::Channel.create("large", :uint8, [4 << 20], slots: 1)
    20.times do |number|
      channel.loan(timeout: nil) { |a| a.fill(number) }
      ready = Queue.new
      copies = channel.receive do |_, message|
        thread = Thread.new do
          ready << 1
          message.copy
        rescue IOError
          nil
        end
        ready.pop
        Thread.pass
        thread
      end
      channel.loan { |a| a.fill(200) }
      channel.receive { nil }
      copy = copies.value
      assert_equal [number], copy.minmax.uniq if copy
    end
  end

  def test_keeping_and_copying_in_other_threads_and_fibers
    post(3)
    kept, copy = @channel.receive do |_, message|
      [Thread.new { message.keep }.value, Fiber.new { message.copy }.resume]
    end
    assert_equal [[3], [3]], [kept, copy].map { |a| a.to_a.flatten.uniq }
    kept.close
    late = nil
    post(4)
    @channel.receive { |_, message| late = message }
    [-> { late.keep }, -> { late.copy }].each do |call|
      thread = Thread.new(&call).tap { |one| one.report_on_exception = false }
      assert_raises(IOError) { thread.value }
      assert_raises(IOError) { Fiber.new(&call).resume }
    end
    assert_both_slots_free
  end

  def test_arrays_outlive_the_channel_or_are_closed
    other = Shmarray::Channel.open("numbers")
    post(1)
    post(2)
    kept = row = nil
    other.receive { |a, message| kept = [message.keep, a[1]] }
    other.receive do |a|
      row = a[0]
      other.close
      assert_equal [2, 2, 2], row.to_a
    end
    assert_closed(row, "row")
    assert_equal [[1] * 3] * 2, [kept[0][0].to_a, kept[1].to_a]
    @channel.close
    @channel = nil
    kept[0][1, 2] = 9
    assert_equal 9, kept[1][2]
  end

  def test_a_loan_whose_channel_is_closed_in_its_block_publishes_or_says_why
    other = Shmarray::Channel.open("numbers")
    begin
      other.loan do |a|
        other.close
        a.fill(5)
      end
      assert_equal 5, @channel.receive(timeout: 0) { |a| a[0, 0] }
    rescue IOError, ArgumentError => error
      assert_match(/closed|given back/, error.message)
    end
    assert_both_slots_free
  end

  def test_an_array_in_a_slot_has_no_handle_and_is_copied_where_that_can_be
    post(6)
    copies = Shmarray::Channel.create("copies", :int32, [2, 3])
    by_handle = Shmarray::Channel.create_by_handle("by_handle")
    target = Shmarray::Array.create(:int32, [2, 3])
    @channel.receive do |a|
      assert_refused(ArgumentError, /slot of a channel/) { a.handle }
      assert_refused(ArgumentError, /slot of a channel/) { a.handle_to_send }
      copies.send_array(a)
      by_handle.send_array(a)
      target[nil] = a
    end
    post(7)
    post(8)
    found = [copies, by_handle].map { |channel| channel.receive { |a| a.to_a.flatten.uniq } }
    assert_equal [[6]] * 3, found << target.to_a.flatten.uniq
  end
end
