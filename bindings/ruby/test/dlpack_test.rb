# frozen_string_literal: true

require_relative "helper"
require "fiddle"

# Shmarray::Array#to_dlpack, and tensors as arrays.
class DlpackTest < SharedMemoryTest
  READ_ONLY = 1
  # DLManagedTensorVersioned, as dlpack.h has it on machines of 64 bits.
  FIELDS = { major: "L", minor: "L", context: "J", deleter: "J", flags: "Q", data: "J",
             device: "l", device_id: "l", ndim: "l", code: "C", bits: "C", lanes: "S",
             shape: "J", strides: "J", byte_offset: "Q" }.freeze

  def fields(tensor)
    FIELDS.keys.zip(tensor[0, tensor.size].unpack(FIELDS.values.join)).to_h
  end

  def numbers(address, count)
    Fiddle::Pointer.new(address, 8 * count)[0, 8 * count].unpack("q*")
  end

  def give_back(tensor)
    free = tensor.free
    tensor.free = nil # as a framework does that takes the tensor over
    free.call(tensor)
    nil
  end

  def test_a_tensor_has_the_same_memory
    a = Shmarray::Array.create(:int32, [4, 3])
    a[nil] = (0...12).each_slice(3).to_a
    tensor = a[(0..) % 2, (-1..0) % -1].to_dlpack
    found = fields(tensor)
    assert_equal({ major: 1, minor: 1, flags: 0, device: 1, device_id: 0, ndim: 2, code: 0,
                   bits: 32, lanes: 1, byte_offset: 0 },
                 found.slice(:major, :minor, :flags, :device, :device_id, :ndim, :code, :bits,
                             :lanes, :byte_offset))
    assert_equal [[2, 3], [6, -1]], [:shape, :strides].map { |all| numbers(found[all], 2) }
    first = Fiddle::Pointer.new(found[:data], 4)
    assert_equal 2, first[0, 4].unpack1("l")
    first[0, 4] = [77].pack("l")
    assert_equal 77, a[0, 2]
  end

  def test_what_is_read_only_or_frozen_says_so
    a = Shmarray::Array.create(:float32, 3)
    assert_equal 0, fields(a.to_dlpack)[:flags]
    readonly = Shmarray::Array.attach(a.handle, readonly: true)
    [readonly, a.dup.freeze].each { |b| assert_equal READ_ONLY, fields(b.to_dlpack)[:flags] }
  end

  # Returns the tensor of a closed array with a nine in it.
  def tensor_of_closed
    a = Shmarray::Array.create(:int8, 3)
    a[1] = 9
    a.to_dlpack.tap { a.close }
  end

  def assert_readable(tensor)
    collect
    assert_equal 1, segments_in.size
    assert_equal [0, 9, 0], away { Shmarray::Array.from_dlpack(tensor).to_a }
  end

  def test_a_tensor_keeps_the_memory_until_it_is_given_back_or_collected
    away do
      tensor = away { tensor_of_closed }
      assert_readable(tensor)
      give_back(tensor)
    end
    collect
    assert_empty segments_in
    away { assert_readable(away { tensor_of_closed }) }
    collect
    assert_empty segments_in
  end

  def test_a_child_gives_back_its_own_tensor
    tensor = away { tensor_of_closed }
    collect
    assert_equal 0, in_child { give_back(tensor) || Shmarray::Array.create(:int8, 3).sum }
    assert_readable(tensor)
  end

  def test_every_dtype_that_dlpack_has_comes_back
    Shmarray::DTYPES.each do |dtype|
      next if dtype == "float8_e5m3fnu" # which it has not

      a = Shmarray::Array.create(dtype, [2, 2])
      a[1] = dtype == "|b1" ? true : -1 if a.to_a.flatten.none?(String) && dtype !~ /u/i
      b = Shmarray::Array.from_dlpack(a.to_dlpack)
      assert_equal [a.dtype, a.shape, a.to_bytes], [b.dtype, b.shape, b.to_bytes], dtype
    end
  end

  def test_what_dlpack_has_not_is_refused
    error = assert_raises(TypeError) { Shmarray::Array.create("<M8[s]", 1).to_dlpack }
    assert_includes error.message, "DLPack has no such type"
    a = Shmarray::Array.create(:int32, 4).view([2], [6])
    error = assert_raises(ArgumentError) { a.to_dlpack }
    assert_includes error.message, "in elements of 4 bytes, not 6"
    assert_raises(IOError) { Shmarray::Array.create(:int8, 1).tap(&:close).to_dlpack }
  end

  def test_tensors_that_cannot_be_copied_are_refused
    error = assert_raises(ArgumentError) { Shmarray::Array.from_dlpack(0) }
    assert_includes error.message, "null"
    tensor = Shmarray::Array.create(:int32, 4).to_dlpack
    tensor[40, 4] = [2].pack("l")
    error = assert_raises(ArgumentError) { Shmarray::Array.from_dlpack(tensor) }
    assert_includes error.message, "it is on device 2:0"
    tensor[0, 4] = [9].pack("L")
    error = assert_raises(ArgumentError) { Shmarray::Array.from_dlpack(tensor) }
    assert_includes error.message, "of DLPack 9.1"
    assert_raises(NoMethodError) { Shmarray::Array.from_dlpack(Object.new) }
  end

  def test_a_tensor_of_a_message_keeps_its_slot
    channel = Shmarray::Channel.create("numbers", :int32, [2, 3], slots: 2)
    channel.loan { |a| a.fill(7) }
    tensor = channel.receive { |a| a[1].to_dlpack }
    channel.loan { |a| a.fill(8) }
    assert_raises(Shmarray::TimeoutError) { channel.loan(timeout: 0) { nil } }
    assert_equal [7, 7, 7], Shmarray::Array.from_dlpack(tensor).to_a
    Thread.new { give_back(tensor) }.join
    channel.loan(timeout: 0) { |a| a.fill(9) }
    assert_equal([8, 9], Array.new(2) { channel.receive(timeout: 0) { |a| a[0, 0] } })
  end
end
