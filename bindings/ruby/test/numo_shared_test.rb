# frozen_string_literal: true

require_relative "helper"

class NumoSharedTest < NumoTest
  def test_a_shared_array_is_of_the_stock_class_and_zeros
    CLASSES.each do |type|
      a = Shared.new(type, [2, 3, 3])
      assert_same type, a.class
      assert a.is_a?(Numo::NArray) && a.instance_of?(type)
      assert_equal [[2, 3, 3], 18, 3, 18 * type::ELEMENT_BYTE_SIZE, true],
                   [a.shape, a.size, a.ndim, a.byte_size, Shared.shared?(a)]
      assert_equal type.zeros(2, 3, 3), a
    end
  end

  def test_every_class_keeps_its_values_in_another_process
    CLASSES.each do |type|
      a = Shared.new(type, [2, 3])
      a.seq(1)
      a[1, 2] = Complex(7, -2) if COMPLEXES.include?(type.name.split("::").last.to_sym)
      script = <<~RUBY
        require "numo/shared"
        a = Numo::Shared.attach(ARGV[0])
        print [a.class, a.to_a].inspect
        a.inplace + 1
      RUBY
      output = ruby_says(script, Shared.handle(a))
      before = (a - 1).to_a
      assert_equal [type, before].inspect, output
    end
  end

  def test_children_write_their_views_and_nothing_is_marshalled_back
    a = Shared.new(Numo::Int32, [2, 3, 3])
    pids = [0, 1].map { |at| fork { a[at, true, true].store(at + 1) } }
    pids.each { |pid| assert Process.wait2(pid)[1].success? }
    assert_equal [[[1] * 3] * 3, [[2] * 3] * 3], a.to_a
  end

  def test_the_handle_of_a_view_has_the_segment_and_its_own_offset_and_strides
    a = Shared.new(Numo::Int32, [4, 6]).seq
    whole = JSON.parse(Shared.handle(a))
    views = {
      a[1, true] => [24, [6], [4]], a[(0..-1) % 2, 1..3] => [4, [2, 3], [48, 4]],
      a.transpose => [0, [6, 4], [4, 24]],
      a.reverse => [92, [4, 6], [-24, -4]], a[2..3, true].reverse(0)[true, -1] => [92, [2], [-24]],
      a.flatten => [0, [24], [4]], a.expand_dims(1) => [0, [4, 1, 6], nil],
      a.diagonal => [0, [4], [28]], a.view => [0, [4, 6], [24, 4]]
    }
    views.each do |view, (offset, shape, strides)|
      facts = JSON.parse(Shared.handle(view))
      assert_equal whole.slice("segment", "generation", "dtype"),
                   facts.slice("segment", "generation", "dtype")
      assert_equal [offset, shape], facts.values_at("offset", "shape")
      assert_equal strides, facts["strides"] if strides
      b = Shared.attach(Shared.handle(view))
      assert_equal view, b
      assert_equal facts, JSON.parse(Shared.handle(b)) if strides # a dimension of one has any
    end
  end

  def test_strided_arrays_write_where_they_read
    a = Shared.new(Numo::Int32, [4, 6])
    b = Shared.attach(Shared.handle(a[(0..-1) % 2, true].transpose.reverse(0)))
    b.seq
    c = Numo::Int32.zeros(4, 6)
    c[(0..-1) % 2, true].transpose.reverse(0).seq
    assert_equal c, a
    b[0, true] = [-1, -2]
    assert_equal [-1, 0, -2, 0], a[true, 5].to_a
  end

  def test_zero_strides_repeat_elements
    a = Shmarray::Array.create(:float64, 3)
    a[nil] = [1, 2, 3]
    b = Shared.attach(a.view([4, 3], [0, 8]).handle)
    assert_equal [[1, 2, 3]] * 4, b.to_a
    assert_equal Numo::DFloat[4, 8, 12], b.sum(0)
    b.store_binary([5.0, 6.0, 7.0].pack("E*") * 4)
    assert_equal [5, 6, 7], a.to_a
  end

  def test_sizes_of_zero_and_no_dimensions
    [[], [0], [0, 3], [3, 0, 2]].each do |shape|
      a = Shared.new(Numo::Int16, shape)
      b = Shared.attach(Shared.handle(a))
      assert_equal [shape, Numo::Int16], [b.shape, b.class]
      assert_equal shape.empty? ? 2 : 0, b.dup.to_binary.bytesize
    end
    a = Shared.new(Numo::Int16, [])
    Shared.attach(Shared.handle(a)).store(7)
    assert_equal 7, a.extract
  end

  def test_sharing_copies_once_and_counts_it
    CLASSES.each do |type|
      private_array = type.new(4, 6).seq
      sources = [private_array, private_array.transpose, private_array[(0..-1) % 2, 1..3].reverse,
                 private_array[[0, 2, 1], true]]
      sources.each do |source|
        before = Shmarray.copied_bytes
        shared = Shared.share(source)
        assert_equal source.size * type::ELEMENT_BYTE_SIZE, Shmarray.copied_bytes - before
        assert_equal [type, source], [shared.class, shared]
        assert_equal source.dup.to_binary.b, bytes_of(shared)
      end
    end
  end

  def test_sharing_what_is_shared_gives_itself
    a = Shared.new(Numo::Int32, 3)
    before = Shmarray.copied_bytes
    assert_same a, Shared.share(a)
    view = a[1..2]
    assert_same view, Shared.share(view)
    assert_equal before, Shmarray.copied_bytes
  end

  def test_a_view_by_index_array_is_shared_but_has_no_handle
    a = Shared.new(Numo::Int32, [3, 3]).seq
    view = a[[0, 2], true]
    assert Shared.shared?(view)
    assert_refused(ArgumentError, /index array/) { Shared.handle(view) }
    view[0, 0] = 50
    assert_equal 50, a[0, 0]
    copy = Shared.share(view)
    assert_equal view, copy
    assert_equal [2, 3], JSON.parse(Shared.handle(copy))["shape"]
  end

  def test_swapped_bytes_are_put_in_order
    assert_equal [1, 2], Shared.share(Numo::Int32[1, 2].swap_byte).to_a
    a = Shared.share(Numo::Int32[1, 2])
    refute Shared.shared?(a.swap_byte)
  end

  def test_copies_are_private
    a = Shared.new(Numo::Int32, [2, 3]).seq
    copies = [a.dup, a.clone, a.copy, a.reshape(3, 2), a + 1, -a, a.cast_to(Numo::Int64),
              Marshal.load(Marshal.dump(a)), a.sort, a.eq(1), a.map { |x| x }]
    copies.each { |copy| refute Shared.shared?(copy) }
    copies.first(4).each { |copy| copy.fill(9) }
    assert_equal [[0, 1, 2], [3, 4, 5]], a.to_a
    [a.view, a.inplace, a.transpose, a.reverse, a.flatten, a[0, true],
     Numo::Int32.cast(a)].each { |view| assert Shared.shared?(view) }
    [nil, 5, "text", [1], Object.new, Numo::Bit[1], Numo::RObject[1],
     Numo::Int32.new(2)].each { |object| refute Shared.shared?(object) }
  end

  def test_a_name_an_order_and_a_mode_can_be_asked_for
    a = Shared.new(Numo::UInt8, [2, 3], name: "image", order: :F, mode: 0o640)
    a.seq
    assert_equal [0, 3, 1, 4, 2, 5].pack("C*"), Shmarray::Array.attach("image").transpose.to_bytes
    assert_equal a, Shared.attach("image")
    assert_equal ["image"], Shared.segments.map { |facts| facts[:name] }
    Shared.unlink("image")
    assert_raises(Errno::ENOENT) { Shared.attach("image") }
    assert_equal({ segments: 0, bytes: 0 }, Shared.sweep)
  end

  def test_numo_and_plain_arrays_are_the_same_memory
    a = Shared.new(Numo::DComplex, [2, 2])
    b = Shmarray::Array.attach(Shared.handle(a))
    b[1, 0] = Complex(1, 2)
    a[0, 1] = Complex(3, 4)
    assert_equal [[0, Complex(3, 4)], [Complex(1, 2), 0]], b.to_a
    assert_equal a.to_a, b.to_a
    assert_equal Shared.handle(a), b.handle
  end
end
