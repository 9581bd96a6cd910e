# frozen_string_literal: true

require_relative "helper"
require "fiddle"

# Closing an array while others still use its memory.
class ArrayCloseTest < SharedMemoryTest
  def numbers(count = 4)
    Shmarray::Array.create(:int32, count).tap { |a| a[nil] = 0...count }
  end

  def test_close_gives_the_memory_back_at_once
    a = numbers
    handle = a.handle
    refute a.closed?
    assert_nil a.close
    assert a.closed?
    assert_empty segments_in
    assert_raises(Errno::ENOENT) { Shmarray::Array.attach(handle) }
    assert_nil a.close
  end

  WITH_ARGUMENTS = %i[close closed? inspect to_json []= values_at view].freeze
  NO_ARGUMENTS = (Shmarray::Array.public_instance_methods(false) - WITH_ARGUMENTS).select do |name|
    [0, -1].include?(Shmarray::Array.instance_method(name).arity)
  end

  def test_every_method_of_a_closed_array_says_so
    a = numbers.tap(&:close)
    NO_ARGUMENTS.each do |name|
      error = assert_raises(IOError, name.to_s) { a.public_send(name) { 1 } }
      assert_equal "closed array", error.message
    end
    assert_operator NO_ARGUMENTS.size, :>, 25
    [-> { a[0] }, -> { a[0] = 1 }, -> { a[nil] = 1 }, -> { a.fill(1) }, -> { a == a.object_id },
     -> { a.view(1, 4) }, -> { a.to_json }, -> { a.values_at(0) },
     -> { a.reshape(2, 2) }, -> { a.deconstruct_keys([:dtype]) }, -> { a.dup }, -> { a.clone },
     -> { a.map { 1 } }].each do |call|
      assert_equal "closed array", assert_raises(IOError, &call).message
    end
    assert_equal "#<Shmarray::Array closed>", a.inspect
  end

  def test_a_closed_array_goes_nowhere
    a = numbers
    b = numbers
    a.close
    here, = Shmarray::Pipe.pair
    calls = [-> { here.send_arrays("x", [a]) }, -> { Shmarray::Array.wrap(a) }, -> { b[nil] = a },
             -> { b == a }]
    calls << -> { Numo::Shared.attach(a) } if NUMO
    calls.each { |call| assert_equal "closed array", assert_raises(IOError, &call).message }
    assert_raises(ArgumentError) { Fiddle::MemoryView.new(a) }
    assert_equal [0, 1, 2, 3], b.to_a
  end

  def test_views_and_what_was_given_away_keep_the_memory
    a = numbers
    view = a[1..2]
    memory = Fiddle::MemoryView.new(a)
    buffer = a.to_io_buffer
    slice = buffer.slice(4, 8)
    numo = Numo::Shared.attach(a) if NUMO
    a.close
    collect
    assert_equal [1, 2], view.to_a
    assert_equal [0, 1, 2, 3], 4.times.map { |i| memory[i] }
    assert_equal [1, 2], [slice.get_value(:s32, 0), slice.get_value(:s32, 4)]
    assert_equal [0, 1, 2, 3], numo.to_a if NUMO
    assert_equal 1, listed_arrays.size
  end

  def test_nothing_stays_when_those_go
    away do
      a = numbers
      memory = Fiddle::MemoryView.new(a)
      buffer = a.to_io_buffer
      a.close
      assert_equal [0, 0], [memory[0], buffer.get_value(:s32, 0)]
      memory.release
      nil
    end
    collect
    assert_empty listed_arrays
  end

  def test_a_loop_goes_on_through_what_is_closed_meanwhile
    a = numbers(1000)
    seen = []
    a.each do |x|
      ObjectSpace.each_object(Shmarray::Array) { |one| one.close unless one.frozen? } if x == 10
      seen << x
    end
    assert a.closed?
    assert_equal (0..999).to_a, seen
    b = numbers(1000)
    view = b[0..]
    b.map! { |x| b.close || x + 1 }
    assert_equal (1..1000).to_a, view.to_a
  end

  # Converting a value may call code that closes the array to which it is assigned.
  def test_an_assignment_goes_on_though_a_value_closes_the_array
    a = numbers(3)
    view = a[0..]
    value = Object.new
    value.define_singleton_method(:to_int) { a.close || 7 }
    a[0] = value
    assert a.closed?
    assert_equal 7, view[0]
    b = numbers(3)
    value.define_singleton_method(:to_int) { b.close || 8 }
    b[nil] = [value, 1, 2]
    assert b.closed?
  end

  def test_other_threads_finish_with_what_is_closed_meanwhile
    a = Shmarray::Array.create(:uint8, 64 << 20).fill(1)
    started = Queue.new
    threads = %i[sum to_bytes dup hash].map do |name|
      Thread.new do
        started << true
        a.public_send(name)
      rescue IOError
        nil
      end
    end
    4.times { started.pop }
    Thread.pass
    a.close
    sum, bytes, copy, = threads.map(&:value)
    assert_includes [nil, 64 << 20], sum
    assert_includes [nil, 64 << 20], bytes&.bytesize
    assert_includes [nil, 64 << 20], copy&.sum
  end

  def test_an_enumerator_that_is_not_finished_keeps_nothing_for_ever
    away do
      a = numbers
      enumerator = a.each
      assert_equal [0, 1], [enumerator.next, enumerator.next]
      a.close
      assert_equal 2, enumerator.next
    end
    collect
    assert_empty listed_arrays
  end

  def test_a_loop_may_be_left_in_every_way
    a = numbers
    1000.times do
      a.each { break }
      catch(:out) { a.each { throw :out } }
      assert_raises(RuntimeError) { a.each { raise "x" } }
      assert_equal 1, -> { a.each { |x| return x if x == 1 } }.call
    end
    assert_equal 1, listed_arrays.size
    assert_equal [[0, 1], 0, [0, 2]],
                 [a.each_slice(2).first, a.lazy.first, a.each_entry.select(&:even?)]
  end

  def test_a_frozen_array_is_not_closed
    a = numbers.freeze
    assert_raises(FrozenError) { a.close }
    assert_equal [0, 1, 2, 3], a.to_a
    Warning[:experimental] = false
    assert_equal FrozenError, Ractor.new(a) { |array| array.close rescue $!.class }.take
    assert_equal 3, Ractor.new(a) { |array| array[-1] }.take
  end

  def test_copies_of_an_array_go_to_ractors
    Warning[:experimental] = false
    a = numbers
    assert_equal [9, 1, 2, 3], Ractor.new(a) { |copy| copy[0] = 9; copy.to_a }.take
    assert_equal [0, 1, 2, 3], a.to_a
  end
end
