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

  def test_an_object_without_a_memory_view_is_refused
    ["text", 1, nil, Object.new].each do |object|
      assert_raises(TypeError) { Shmarray::Array.wrap(object) }
    end
  end
end
