# frozen_string_literal: true

require_relative "helper"

# The methods of an Array that Ruby programmers try first.
class ArrayAsRubyTest < SharedMemoryTest
  def array(dtype, values)
    shape = []
    row = values
    while row.is_a?(::Array)
      shape << row.size
      row = row.first
    end
    Shmarray::Array.create(dtype, shape).tap { |a| a[nil] = values }
  end

  def test_arrays_with_equal_elements_are_equal
    a = array(:int32, [[1, 2], [3, 4]])
    assert_equal a, array(:int32, [[1, 2], [3, 4]])
    assert_equal a, Shmarray::Array.attach(a.handle, readonly: true)
    assert_equal a, array(:int32, [[1, 3], [2, 4]]).transpose
    refute_equal a, array(:int32, [[1, 2], [3, 5]])
    refute_equal a, array(:int32, [1, 2, 3, 4])
    refute_equal a, a.transpose
    assert_equal array(:int32, []), array(:int32, [])
    refute_equal Shmarray::Array.create(:int8, [0, 2]), Shmarray::Array.create(:int8, [2, 0])
  end

  # Every pair of dtypes, as Ruby compares the objects.
  def test_elements_are_compared_by_value_whatever_their_dtypes
    numbers = [0, 1, 2**53, 2**53 + 1, 2**63, 2**64 - 1, -1, 0.5, -0.0, Float::NAN, Float::INFINITY,
               1e40, Complex(1, 0), Complex(0.5, 2), true, false]
    elements = Shmarray::DTYPES.product(numbers).filter_map do |dtype, number|
      a = Shmarray::Array.create(dtype, 1)
      a[0] = number unless dtype.match?(/[iu]/) && !number.is_a?(Integer)
      a
    rescue RangeError, TypeError
      nil
    end
    elements.product(elements) do |a, b|
      assert_equal same?(a[0], b[0]), a == b, [a, b].inspect
    end
    assert_operator elements.size, :>, 100
  end

  # Ruby rounds an Integer before it compares it with a Complex, though not before it does with a
  # Float.
  def same?(one, other)
    return one == other unless [one, other].all?(Numeric)

    one.real == other.real && one.imaginary == other.imaginary
  end

  def test_every_element_counts_in_a_comparison
    [:uint8, :int64, :float32, "|S3"].each do |dtype|
      a = Shmarray::Array.create(dtype, [5, 7])
      other = dtype.is_a?(String) ? "abc" : 1
      35.times do |at|
        b = a.dup
        b[at / 7, at % 7] = other
        refute_equal a, b, at
        refute_equal a[true, (0..) % 2], b[true, (0..) % 2], at if (at % 7).even?
      end
      assert_equal a, a.dup
    end
  end

  def test_an_array_equals_no_object_of_another_class
    a = array(:int32, [1, 2])
    [[1, 2], nil, 1, "x", Object.new].each { |other| refute_equal a, other }
    refute_equal [1, 2], a
    refute_equal a, Numo::Int32[1, 2] if NUMO
  end

  def test_eql_and_hash_are_those_of_dtype_shape_and_elements
    a = array(:float64, [0.0, 1.5])
    assert a.eql?(a.dup)
    refute a.eql?(array(:float32, [0.0, 1.5]))
    assert_equal array(:int8, [0, 1]), array(:int16, [0, 1])
    zeros = [array(:float64, [0.0]), array(:float64, [-0.0])]
    assert zeros[0].eql?(zeros[1]) && zeros[0].hash == zeros[1].hash
    assert_equal a.hash, array(:float64, [[0.0, 5], [1.5, 6]])[true, 0].hash
    assert_equal 1, { a => 1 }[a.dup]
    refute_equal a.hash, a.reshape(1, 2).hash
    before = a.hash
    a[0] = 9
    refute_equal before, a.hash
  end

  def test_a_large_comparison_lets_other_threads_run
    a = Shmarray::Array.create(:uint8, 64 << 20)
    b = a.dup
    assert_equal [true] * 3, ::Array.new(3) { Thread.new { a == b } }.map(&:value)
    b[-1] = 1
    refute_equal a, b
  end

  def test_dup_and_clone_are_arrays_of_their_own
    a = array(:int32, [[1, 2], [3, 4]])
    fixed = Shmarray::Array.attach(a.handle, readonly: true)
    [a, fixed, a.transpose].each do |original|
      copies = [original.dup, original.clone]
      copies.each do |copy|
        assert_equal original, copy
        assert_equal [8, 4], copy.strides
        refute copy.readonly? || copy.frozen?
        copy[0, 0] = 9
        assert_equal 1, original[0, 0]
        assert_equal 9, in_child { Shmarray::Array.attach(copy.handle)[0, 0] }
      end
    end
    a.freeze
    assert_equal [false, true, false], [a.dup, a.clone, a.clone(freeze: false)].map(&:frozen?)
    assert_raises(FrozenError) { a.clone[0, 0] = 1 }
    a.dup[0, 0] = 5
  end

  def test_an_array_is_made_by_create_alone
    assert_raises(NoMethodError) { Shmarray::Array.allocate }
    a = array(:int8, [1])
    assert_raises(TypeError) { a.send(:initialize_copy, a.dup) }
    assert_equal [1], a.to_a
  end

  def test_marshal_says_what_to_send_instead
    error = assert_raises(TypeError) { Marshal.dump([array(:int8, [1])]) }
    %w[handle handle_to_send to_a].each { |word| assert_match(/\b#{word}\b/, error.message) }
  end

  def test_sizes_are_asked_as_of_an_array
    a = Shmarray::Array.create(:int8, [2, 3])
    assert_equal [6, 6, false, 6, 6], [a.length, a.size, a.empty?, a.each.size, a.map!.size]
    empty = Shmarray::Array.create(:int8, [0, 3])
    found = [empty.length, empty.empty?, empty.first, empty.last, empty.first(2), empty.last(2)]
    assert_equal [0, true, nil, nil, [], []], found
  end

  def test_first_and_last_take_elements_in_c_order
    a = array(:int32, [[1, 2, 3], [4, 5, 6]])
    list = a.to_a.flatten
    (0..8).each { |n| assert_equal [list.first(n), list.last(n)], [a.first(n), a.last(n)] }
    assert_equal [1, 6], [a.first, a.last]
    assert_equal [[1, 4, 2], [2, 5, 3, 6].last(3)], [a.transpose.first(3), a.transpose.last(3)]
    assert_raises(ArgumentError) { a.first(-1) }
    assert_raises(TypeError) { a.last("x") }
    zero = Shmarray::Array.create(:int8, []).fill(3)
    assert_equal [3, 3, [3], [3]], [zero.first, zero.last, zero.first(2), zero.deconstruct]
  end

  def test_fill_and_map_write_every_element
    a = Shmarray::Array.create(:float32, [2, 3])
    assert_same a, a.fill(1)
    assert_equal [[1.0] * 3] * 2, a.to_a
    a.transpose[0].fill(2.5)
    assert_equal [[2.5, 1.0, 1.0]] * 2, a.to_a
    assert_same a, a.map! { |x| x * 2 }
    assert_equal [[5.0, 2.0, 2.0]] * 2, a.to_a
    a.map!.with_index { |_, i| i }
    assert_equal [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], a.to_a
    assert_equal 3.0, a.map! { |x| x == 3 ? (break x) : x + 1 }
    assert_equal [[1.0, 2.0, 3.0], [3.0, 4.0, 5.0]], a.to_a
    assert_raises(TypeError) { a.map! { |x| x > 2 ? "x" : 0 } }
    assert_raises(TypeError) { a.fill("x") }
    assert_equal [[0.0, 0.0, 3.0], [3.0, 4.0, 5.0]], a.to_a
  end

  def test_fill_and_map_leave_what_may_not_be_written
    a = array(:int8, [1, 2])
    fixed = Shmarray::Array.attach(a.handle, readonly: true)
    [fixed, a.dup.freeze].each do |array|
      assert_raises(FrozenError) { array.fill(1) }
      assert_raises(FrozenError) { array.map! { 1 } }
      assert_equal [1, 2], array.to_a
    end
  end

  def test_bytes_without_a_meaning_are_filled_and_mapped_too
    a = Shmarray::Array.create("|S3", 2).fill("abc")
    a.map!.with_index { |text, i| text.succ.tr("d", i.to_s) }
    assert_equal %w[ab0 ab1], a.to_a
    assert_raises(ArgumentError) { a.fill("abcd") }
  end

  def test_reshape_is_a_view_of_the_same_elements
    a = Shmarray::Array.create(:int32, 12)
    a[nil] = 0..11
    { [3, 4] => [3, 4], [[4, 3]] => [4, 3], [2, nil] => [2, 6], [true, 2, 1] => [6, 2, 1],
      [-1] => [12], [2, 3, 2] => [2, 3, 2] }.each do |counts, shape|
      view = a.reshape(*counts)
      assert_equal [shape, (0..11).to_a], [view.shape, view.each.to_a]
      view[*[0] * shape.size] = 50
      assert_equal 50, a[0]
      a[0] = 0
    end
    assert_equal 7, Shmarray::Array.create(:int8, []).fill(7).reshape(1, 1)[0, 0]
    assert_equal [0, 5], Shmarray::Array.create(:int8, [5, 0]).reshape(0, 5).shape
  end

  def test_reshape_keeps_strides_that_are_no_single_run
    a = Shmarray::Array.create(:int32, [4, 6])
    a[nil] = (0...24).each_slice(6).to_a
    part = a[(0..) % 2, 1..4] # no run of its own
    assert_equal part.to_a.map { |row| row.each_slice(2).to_a }, part.reshape(2, 2, 2).to_a
    assert_equal part.to_a.map { |row| [row] }, part.reshape(2, 1, 4).to_a
    assert_equal a.transpose.to_a.map { |row| row.each_slice(2).to_a },
                 a.transpose.reshape(6, 2, 2).to_a
    [part, a.transpose].each do |view|
      error = assert_raises(ArgumentError) { view.reshape(-1) }
      assert_match(/dup/, error.message)
      assert_equal view.to_a.flatten, view.dup.reshape(-1).to_a
    end
  end

  def test_reshape_refuses_another_number_of_elements
    a = Shmarray::Array.create(:int8, 6)
    [[4], [5, nil], [nil, nil], [-1, -1], [2**62, 2**62], [], [0, nil]].each do |shape|
      assert_raises(ArgumentError, shape.inspect) { a.reshape(*shape) }
    end
    assert_raises(TypeError) { a.reshape("6") }
  end

  def test_values_at_and_patterns_go_along_the_first_dimension
    a = array(:int32, [[1, 2], [3, 4], [5, 6]])
    assert_equal [[5, 6], [1, 2], [3, 4]], a.values_at(-1, 0..1).map(&:to_a)
    assert_equal [2, 6], a[true, 1].values_at(0, -1)
    assert_raises(IndexError) { a.values_at(3) }
    found = case a
            in [first, [x, 4], *] then [first.to_a, x]
            end
    assert_equal [[1, 2], 3], found
    found = case a
            in { dtype: "<i4", shape: [rows, 2], name: nil, readonly: false, size: 6, ndim: 2,
                 strides: [8, 4] } then rows
            end
    assert_equal 3, found
    assert_equal %i[dtype shape strides ndim size name readonly], a.deconstruct_keys(nil).keys
    assert_equal({ ndim: 2 }, a.deconstruct_keys(%i[ndim colour]))
  end

  def test_json_has_the_elements_in_arrays
    assert_equal "[[1,2],[3,4]]", JSON.generate(array(:int32, [[1, 2], [3, 4]]))
    assert_equal '{"a":[0.5,1.0]}', JSON.generate({ "a" => array(:float32, [0.5, 1]) })
    assert_equal JSON.pretty_generate([[1], [2]]), JSON.pretty_generate(array(:int8, [[1], [2]]))
    assert_equal "[true]", array(:bool, [true]).to_json
    assert_raises(JSON::GeneratorError) { JSON.generate(array(:float32, [Float::NAN])) }
    complex = [Complex(1.0, 2.0)]
    assert_equal JSON.generate(complex), JSON.generate(array(:complex128, complex))
  end

  def test_a_range_and_its_steps_are_assigned_as_their_array_is
    a = Shmarray::Array.create(:int32, [2, 3])
    a[0] = 1..3
    a[1] = (0...9) % 3
    assert_equal [[1, 2, 3], [0, 3, 6]], a.to_a
    a[true, 0] = (5..4).step(-1)
    assert_equal [5, 4], a[true, 0].to_a
    [1..2, 1..4, (1..), 1..10**15, "a".."c", 0...0].each do |range|
      assert_raises(ArgumentError, range.inspect) { a[0] = range }
    end
    assert_raises(TypeError) { a[0, 0] = 1..1 }
    assert_raises(ArgumentError) { a[nil] = 1..2 }
    assert_equal [5, 2, 3], a[0].to_a
  end

  def test_the_name_is_the_one_that_the_array_was_made_with
    a = Shmarray::Array.create(:int8, 3, name: "camera")
    others = [Shmarray::Array.attach("camera"), Shmarray::Array.attach(a.handle, readonly: true),
              a[0..1]]
    assert_equal ["camera"] * 4, [a, *others].map(&:name)
    assert_nil a.dup.name
    assert_nil Shmarray::Array.create(:int8, 3).name
    assert_nil Shmarray::Array.create(:int8, 3, mode: 0o644).name
  end

  def test_a_shape_may_be_given_as_numo_takes_it
    arguments = [[2, 3], [2], [[2, 3]], [[]]]
    shapes = arguments.map { |shape| Shmarray::Array.create(:int8, *shape).shape }
    assert_equal [[2, 3], [2], [2, 3], []], shapes
    assert_equal [2, 3], Shmarray::Array.new(:int8, 2, 3, name: "x").shape
    [[2, [3]], [2, nil], [2, "3"]].each do |shape|
      assert_raises(TypeError) { Shmarray::Array.create(:int8, *shape) }
    end
    assert_raises(ArgumentError) { Shmarray::Array.create(:int8, 2, -3) }
    assert_raises(ArgumentError) { Shmarray::Array.create(:int8) }
  end
end

class ArrayAndNumoTest < NumoTest
  def test_a_numo_array_is_assigned_whatever_its_strides
    a = Shmarray::Array.create(:int32, [2, 3])
    private_one = Numo::Int32.new(2, 3).seq
    { private_one => [[0, 1, 2], [3, 4, 5]],
      Numo::Int32.new(3, 2).seq.transpose => [[0, 2, 4], [1, 3, 5]],
      Numo::Shared.share(private_one + 1) => [[1, 2, 3], [4, 5, 6]],
      (private_one + 2)[[1, 0], true] => [[5, 6, 7], [2, 3, 4]],
      private_one.to_swapped => [[0, 1, 2], [3, 4, 5]] }.each do |numo, expected|
      a[nil] = numo
      assert_equal expected, a.to_a, numo.inspect
    end
    a[1] = private_one[0, true]
    assert_equal [0, 1, 2], a[1].to_a
  end

  def test_a_numo_array_over_the_same_memory_is_assigned
    a = Shmarray::Array.create(:int32, 4)
    a[nil] = 1..4
    a[nil] = Numo::Shared.attach(a).reverse
    assert_equal [4, 3, 2, 1], a.to_a
  end

  def test_a_numo_array_of_another_shape_or_dtype_is_refused
    a = Shmarray::Array.create(:int32, [2, 3])
    [Numo::Int32[1, 2, 3], Numo::Int32.new(3, 2).seq, Numo::Int32.new(2, 3)].each do |numo|
      assert_raises(ArgumentError) { a[nil] = numo }
    end
    assert_refused(TypeError, /int32, not float64/) { a[nil] = Numo::DFloat.new(2, 3).seq }
    assert_equal [[0] * 3] * 2, a.to_a
  end

  def test_bits_and_objects_of_numos_are_converted
    mask = Shmarray::Array.create(:bool, 3)
    mask[nil] = Numo::Int32[1, 5, 9] > 4
    assert_equal [false, true, true], mask.to_a
    a = Shmarray::Array.create(:float64, 2)
    a[nil] = Numo::RObject[1, 2.5]
    assert_equal [1.0, 2.5], a.to_a
  end

  def test_a_large_numo_array_is_assigned_while_other_threads_run
    a = Shmarray::Array.create(:uint8, 32 << 20)
    numo = Numo::UInt8.ones(32 << 20)
    ::Array.new(3) { Thread.new { a[nil] = numo } }.each(&:join)
    assert_equal 32 << 20, a.sum
  end

  def test_shapes_are_given_as_numos_own
    assert_equal [2, 3], Numo::Shared.new(Numo::Int32, 2, 3).shape
    assert_equal [2, 3], Numo::Shared.new(Numo::Int32, 2, 3, name: "splat").shape
    assert_equal [], Numo::Shared.new(Numo::Int32, []).shape
    assert_raises(TypeError) { Numo::Shared.new(Numo::Int32, 2, [3]) }
  end

  def test_an_array_without_elements_looks_like_numos_own
    [[0, 3], [3, 0], [0]].each do |shape|
      shared = Numo::Shared.new(Numo::Int32, shape)
      assert_equal Numo::Int32.zeros(*shape).inspect, shared.inspect
      assert Numo::Shared.shared?(shared)
      again = Numo::Shared.attach(Numo::Shared.handle(shared))
      assert_equal [shape, []], [again.shape, again.to_a.flatten]
      assert_equal 0, (shared + 1).size
      shared.fill(1)
      shared.store(Numo::Int32.zeros(*shape))
      assert_equal Numo::Shared.handle(shared), Numo::Shared.handle(again)
      assert_equal shape, Numo::Shared.attach(Numo::Shared.handle(shared.view)).shape
    end
  end

  # A view of it is frozen in any Ractor, too.
  def test_views_of_a_frozen_array_are_frozen
    frozen = Shmarray::Array.create(:int8, [2, 3]).fill(1).freeze
    views = [frozen[0], frozen[nil, 0..1], frozen.transpose, frozen.reshape(6),
             frozen.view([2], [1])]
    assert(views.all?(&:frozen?))
    views.each { |view| assert_raises(FrozenError) { view.fill(9) } }
    assert_predicate Numo::Shared.attach(frozen), :frozen? if NUMO
    assert_equal [[1, 1, 1]] * 2, frozen.to_a
    refute_predicate frozen.dup[0], :frozen?
  end

end
