# frozen_string_literal: true

require_relative "helper"
require "fiddle"

class MemoryViewTest < SharedMemoryTest
  def test_a_view_tells_shape_strides_and_format
    a = Shmarray::Array.create(:int32, [4, 3])
    a[nil] = (0...12).each_slice(3).to_a
    view = Fiddle::MemoryView.new(a[(0..) % 2, (-1..0) % -1])
    assert_equal ["l<", [2, 3], [24, -4], 2, 4, 24, false],
                 [view.format, view.shape, view.strides, view.ndim, view.item_size, view.byte_size,
                  view.readonly?]
    assert_equal [[2, 1, 0], [8, 7, 6]], (0..1).map { |i| (0..2).map { |j| view[i, j] } }
    a[2, 0] = 66
    assert_equal 66, view[1, 2]
    view.release
  end

  def test_every_dtype_has_a_format_of_its_size
    Shmarray::DTYPES.each do |dtype|
      a = Shmarray::Array.create(dtype, 2)
      a[1] = { "|b1" => true, "int1" => -1 }.fetch(dtype, 1)
      view = Fiddle::MemoryView.new(a)
      assert_equal a.strides, [view.item_size], dtype
      assert_equal [a.to_bytes.bytesize / 2, a.to_bytes.bytesize], [view.item_size, view.byte_size],
                   dtype
      one = expected(dtype) || a.to_bytes.bytes.last(view.item_size)
      assert_equal one, [view[1]].flatten, dtype
      view.release
    end
  end

  # The number one, where one of Ruby's format letters expresses it; otherwise there are bytes.
  def expected(dtype)
    case dtype
    when "<f2", /\A[a-z]/ then nil
    when "<c8", "<c16" then [1.0, 0.0]
    when /f/ then [1.0]
    else [1]
    end
  end

  def test_a_view_keeps_its_array
    view = away { Fiddle::MemoryView.new(Shmarray::Array.create(:int8, 3).tap { |a| a[1] = 9 }) }
    collect
    GC.compact if GC.respond_to?(:compact)
    assert_equal [0, 9, 0], (0..2).map { |at| view[at] }
    assert_equal 1, segments_in.size
    view.release
  end

  def test_a_readonly_array_is_a_readonly_view
    a = Shmarray::Array.create(:int8, 3)
    view = Fiddle::MemoryView.new(Shmarray::Array.attach(a.handle, readonly: true))
    assert view.readonly?
    view.release
  end

  def test_items_without_bytes_have_no_view
    assert_raises(ArgumentError) { Fiddle::MemoryView.new(Shmarray::Array.create("|V0", 3)) }
    view = Fiddle::MemoryView.new(Shmarray::Array.create("|S3", 1).tap { |a| a[0] = "abc" })
    assert_equal ["C3", [97, 98, 99]], [view.format, view[0]]
    view.release
  end
end
