# frozen_string_literal: true

require_relative "helper"

# Shmarray::Array#to_io_buffer, and IO::Buffers as arrays.
class IOBufferTest < SharedMemoryTest
  def setup
    Warning[:experimental] = false # what IO::Buffer is
  end

  def test_a_buffer_is_the_memory_of_its_array
    a = Shmarray::Array.create(:int32, [2, 3])
    buffer = a.to_io_buffer
    assert_equal [24, false, true], [buffer.size, buffer.readonly?, buffer.external?]
    buffer.set_value(:S32, 8, -1) # big-endian
    buffer.set_string("\1\2", 12)
    assert_equal [[0, 0, -1], [513, 0, 0]], a.to_a
    a[0, 0] = 7
    assert_equal 7, buffer.get_value(:s32, 0)
    assert_equal 24, a.transpose.to_io_buffer.size
    assert_equal 0, Shmarray::Array.create(:int32, [0, 3]).to_io_buffer.size
  end

  def test_an_array_with_gaps_has_no_buffer
    a = Shmarray::Array.create(:int32, [4, 3])
    assert_raises(ArgumentError) { a[(0..) % 2].to_io_buffer }
    assert_equal 12, a[1].to_io_buffer.size
  end

  def test_a_file_is_read_into_shared_memory_and_written_from_it
    a = Shmarray::Array.create(:uint8, 5)
    IO.pipe do |reader, writer|
      writer.write("hello")
      assert_equal 5, a.to_io_buffer.read(reader, 5)
    end
    assert_equal "hello", Shmarray::Array.attach(a.handle).to_bytes
    IO.pipe do |reader, writer|
      a.to_io_buffer.write(writer, 5)
      writer.close
      assert_equal "hello", reader.read
    end
  end

  # The buffer itself, a slice of it, and the buffer to which it was transferred.
  def test_the_array_lives_as_long_as_a_buffer_of_it
    make = -> { Shmarray::Array.create(:uint8, 1 << 20).tap { |a| a[5] = 9 }.to_io_buffer }
    ways = { itself: make, slice: -> { make.call.slice(4, 100).slice(0, 50) },
             transferred: -> { make.call.transfer }, twice: -> { make.call.transfer.transfer } }
    ways.each do |name, way|
      buffer = away(&way)
      collect
      GC.compact if GC.respond_to?(:compact)
      assert_equal 9, buffer.get_value(:U8, name == :slice ? 1 : 5), name
      refute_empty listed_arrays, name
    end
  end

  def test_the_array_goes_with_the_last_buffer
    away { Shmarray::Array.create(:uint8, 1 << 20).to_io_buffer.slice(4, 100) && nil }
    collect
    assert_empty Shmarray.segments
  end

  def test_a_freed_buffer_takes_nothing_from_its_array
    a = Shmarray::Array.create(:uint8, 100)
    buffer = a.to_io_buffer
    assert_raises(IO::Buffer::AccessError) { buffer.resize(1000) }
    buffer.free
    a[99] = 1
    assert_equal 1, a[99]
    assert buffer.null?
  end

  # A write through it, or through a slice, would end the process if Ruby did not refuse it.
  def test_no_write_gets_through_a_readonly_one
    a = Shmarray::Array.create(:uint8, 100)
    fixed = Shmarray::Array.attach(a.handle, readonly: true)
    if slices_are_readonly?
      [fixed.to_io_buffer, fixed.to_io_buffer.slice(1, 5),
       fixed.to_io_buffer.transfer].each do |buffer|
        assert buffer.readonly?
        assert_raises(IO::Buffer::AccessError) { buffer.set_string("x") }
      end
    else
      assert_refused(NotImplementedError, /read-only/) { fixed.to_io_buffer }
    end
    assert_equal 0, a.sum
  end

  # At its exit Ruby 3.1 aborts if it frees a string before the buffer of it.
  def slices_are_readonly?
    some = IO::Buffer.for("some")
    some.slice(0, 1).readonly?
  ensure
    some.free
  end

  def test_buffers_are_arrays_of_bytes
    a = Shmarray::Array.create(:int32, [2, 3])
    same = Shmarray::Array.wrap(a.to_io_buffer.slice(4, 8))
    same[0] = 5
    assert_equal [["|u1", [8]], 5], [[same.dtype, same.shape], a[0, 1]]
    private_buffer = IO::Buffer.new(5)
    private_buffer.set_string("hello")
    copy = Shmarray::Array.wrap(private_buffer)
    private_buffer.clear
    assert_equal "hello", Shmarray::Array.attach(copy.handle).to_bytes
  end

  # It is an error in Ruby 3.1, and no bytes in newer versions.
  def test_a_freed_buffer_is_what_ruby_says
    freed = IO::Buffer.new(5).tap(&:free)
    assert_equal outcome { freed.get_string }, outcome { Shmarray::Array.wrap(freed).to_bytes }
  end

  def outcome
    yield
  rescue IO::Buffer::AllocationError => error
    error.class
  end

  def test_buffers_of_others_are_as_they_were
    Shmarray::Array.create(:uint8, 3).to_io_buffer
    buffer = IO::Buffer.new(10).tap { |one| one.set_string("0123456789") }
    moved = buffer.transfer
    assert_equal ["0123456789", true], [moved.get_string, buffer.null?]
  end
end
