# frozen_string_literal: true

require_relative "helper"
require "fiddle"

# Shmarray::Array.wrap: arrays over the MemoryViews of other objects.
class WrapTest < SharedMemoryTest
  def test_an_array_is_itself
    a = Shmarray::Array.create(:int32, [2, 3])
    assert_same a, Shmarray::Array.wrap(a)
  end

  def test_private_memory_is_copied
    memory = Fiddle::Pointer.malloc(5, Fiddle::RUBY_FREE)
    memory[0, 5] = "hello"
    a = Shmarray::Array.wrap(memory)
    memory[0] = 0
    assert_equal ["|u1", "hello"], [a.dtype, a.to_bytes]
    b = Shmarray::Array.attach(a.handle)
    b[0] = "j".ord
    assert_equal "jello", a.to_bytes
  end

  def test_memory_of_a_segment_is_the_array_that_is_there
    a = Shmarray::Array.create(:uint8, 4, name: "wrapped")
    fixed = Shmarray::Array.attach(a.handle, readonly: true)
    found = Shmarray::Array.wrap(Fiddle::Pointer.new(address_of(fixed), 4))
    a[2] = 9
    assert_equal [[0, 0, 9, 0], true], [found.to_a, found.readonly?]
  end

  # The address of a read-only array with a segment of its own: only its data are mapped so.
  def address_of(array)
    id = JSON.parse(array.handle)["segment"]
    maps = File.foreach("/proc/self/maps")
    maps.find { |line| line.include?(id) && line.include?("r--s") }.to_i(16)
  end

  def test_numos_arrays_are_found_or_copied
    skip "no Numo gem is installed" unless NUMO

    shared = Numo::Shared.new(Numo::Int32, [2, 3]).seq
    found = Shmarray::Array.wrap(shared)
    found[1, 2] = 50
    assert_equal [["<i4", [2, 3], shared.to_a], 50],
                 [[found.dtype, found.shape, found.to_a], shared[1, 2]]
    assert_equal Numo::Shared.handle(shared), found.handle
    copy = Shmarray::Array.wrap(Numo::DFloat[[1, 2], [3, 4]])
    assert_equal [[1.0, 2.0], [3.0, 4.0]], Shmarray::Array.attach(copy.handle).to_a
    assert_equal [[1.0, 3.0], [2.0, 4.0]],
                 Shmarray::Array.wrap(Numo::DFloat[[1, 2], [3, 4]].transpose).to_a
  end

  # Exports the eight bytes of `MEMORY` in the format and with the item size that it was given.
  Exporter = Struct.new(:format, :item_size) do
    self::MEMORY = Fiddle::Pointer.malloc(8, Fiddle::RUBY_FREE)

    def self.c(name, *types)
      Fiddle::Function.new(Fiddle.dlopen(nil)["rb_memory_view_#{name}"], types, Fiddle::TYPE_VOIDP)
    end

    # Registers the functions of the protocol, which live as long as the class.
    def self.register
      @getter = getter
      @available = available
      @entry = Fiddle::Pointer[[@getter.to_i, 0, @available.to_i].pack("J3")]
      c("register", Fiddle::TYPE_VOIDP, Fiddle::TYPE_VOIDP).call(Fiddle.dlwrap(self), @entry)
    end

    def self.available
      Fiddle::Closure::BlockCaller.new(Fiddle::TYPE_CHAR, [Fiddle::TYPE_VOIDP]) { 1 }
    end

    def self.getter
      types = [Fiddle::TYPE_VOIDP, Fiddle::TYPE_VOIDP, Fiddle::TYPE_INT]
      Fiddle::Closure::BlockCaller.new(Fiddle::TYPE_CHAR, types) do |object, view, _|
        object.to_value.fill(view)
        1
      end
    end

    # Makes the view one of bytes, and then sets its format and its item size.
    def fill(view)
      pointer = Fiddle::TYPE_VOIDP
      size = Fiddle::TYPE_SSIZE_T
      Exporter.c("init_as_byte_array", pointer, pointer, pointer, size, Fiddle::TYPE_CHAR)
              .call(view, Fiddle.dlwrap(self), self.class::MEMORY, 8, 0)
      @text = Fiddle::Pointer["#{format}\0"]
      view[32, 16] = [@text.to_i, item_size].pack("J2")
    end

    register
  end

  # Formats, the dtype, and what the bytes 0 to 7 are.
  FORMATS = {
    ["l", 4] => ["<i4", "l2"], ["l<", 4] => ["<i4", "l<2"], ["S", 2] => ["<u2", "S4"],
    ["V", 4] => ["<u4", "V2"], ["v", 2] => ["<u2", "v4"], ["c", 1] => ["|i1", "c8"],
    ["d", 8] => ["<f8", "d"], ["e", 4] => ["<f4", "e2"], ["E", 8] => ["<f8", "E"]
  }.freeze

  def test_the_format_of_a_view_is_the_dtype
    Exporter::MEMORY[0, 8] = (0..7).to_a.pack("C8")
    FORMATS.each do |(format, size), (dtype, letters)|
      a = Shmarray::Array.wrap(Exporter.new(format, size))
      assert_equal [dtype, (0..7).to_a.pack("C8").unpack(letters)], [a.dtype, a.to_a], format
    end
    complex = Shmarray::Array.wrap(Exporter.new("ff", 8))
    assert_equal ["<c8", [1]], [complex.dtype, complex.shape]
  end

  def test_big_endian_views_and_those_of_several_fields_are_refused
    { "l>" => 4, "q>" => 8, "n" => 2, "N" => 4, "g" => 4, "G" => 8, "gg" => 8, "s<s>" => 4,
      "lf" => 8, "lll" => 12 }.each do |format, size|
      error = assert_raises(ArgumentError, format) do
        Shmarray::Array.wrap(Exporter.new(format, size))
      end
      assert_match(/format "#{format}" is no array of numbers/, error.message)
    end
  end

  def test_an_object_without_a_memory_view_is_refused
    ["text", 1, nil, Object.new].each do |object|
      assert_raises(TypeError) { Shmarray::Array.wrap(object) }
    end
  end
end
