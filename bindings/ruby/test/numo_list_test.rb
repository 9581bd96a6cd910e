# frozen_string_literal: true

require_relative "helper"

# Lists of Numo's arrays.
class NumoListTest < NumoTest
  List = NUMO && Numo::Shared::List

  def test_arrays_of_every_class_come_out_in_place
    CLASSES.each do |type|
      arrays = [type.new(3).seq, nil, type.new(0), type.new(2).seq(5)]
      list = List.new(arrays)
      before = Shmarray.copied_bytes
      found = list.to_a
      assert_equal before, Shmarray.copied_bytes
      assert_equal arrays, found
      assert_equal [type] * 3, found.compact.map(&:class)
      assert found.compact.all? { |array| array.frozen? && Shared.shared?(array) }
      assert_equal [0, 1, 2, 5, 6], list.values.to_a
      assert_equal Numo::Int64[0, 3, 3, 3, 5], list.offsets
      assert_raises(RuntimeError) { found[0][0] = 1 }
    end
  end

  def test_any_layout_goes_in
    whole = Numo::Int32.new(4, 6).seq
    views = [whole, whole.transpose, whole[(0..-1) % 2, 1..3].reverse, whole[[0, 2, 1], true],
             Shared.share(whole).transpose]
    list = List.new([*views, whole.swap_byte])
    assert_equal [*views, whole].map(&:to_a), list.map(&:to_a)
    assert_equal [Numo::Int32], list.map(&:class).uniq
  end

  def test_arrays_of_one_shape_have_offsets
    list = List.new([Numo::UInt8[[1, 2]], Numo::UInt8[[3, 4]]])
    assert_equal [Numo::UInt8[1, 2, 3, 4], Numo::Int64[0, 2, 4]], [list.values, list.offsets]
    assert list.offsets.frozen?
  end

  def test_records_have_arrays
    list = List.new([{ pixels: Numo::UInt8[1, 2], label: 7 }, { pixels: nil, label: nil }])
    assert_equal({ pixels: Numo::UInt8[1, 2], label: 7 }, list[0])
    assert_equal [Numo::UInt8[1, 2], nil], list.field(:pixels).to_a
    assert_instance_of List, list.field(:pixels)
    assert_equal 7, list.field(:label).values[0]
    assert_equal list, List.new(list)
  end

  def test_numbers_with_steps_are_a_view
    values = List.new([1.5, 2.5, 3.5, 4.5])[(-1..0) % -2].values
    assert_equal [Numo::DFloat[4.5, 2.5], true, true],
                 [values, values.frozen?, Shared.shared?(values)]
  end

  def test_both_kinds_of_arrays_go_into_both_kinds_of_lists
    own = Shmarray::Array.create(:int16, 2).fill(3)
    [List, Shmarray::List].each do |list|
      made = list.new([Numo::Int16[1], own])
      assert_equal [[1], [3, 3]], made.map(&:to_a)
      assert_instance_of(list == List ? Numo::Int16 : Shmarray::Array, made[0])
    end
  end

  def test_arrays_that_differ_are_refused_by_both_names
    { [Numo::Int8[1], Numo::Int16[1]] => /item 1: it is an array of int16 .* not an array of int8/,
      [Numo::Int8[1], nil, Numo::Int8[[1]]] => /item 2: .* 2 dimensions, not .* 1 dimension /,
      [nil, Numo::Bit[1]] => /item 1: Numo::Bit cannot be shared/,
      [Numo::RObject[1]] => /item 0: Numo::RObject cannot be shared/,
      [{ a: 1 }, { a: Numo::Int8[1] }] => /item 1: field a: it is an array of int8/ }
      .each { |items, words| assert_refused(TypeError, words) { List.new(items) } }
    assert_refused(ArgumentError, /item 0: .*no elements yet/) { List.new([Numo::Int8.new(2)]) }
    assert_refused(ArgumentError, /item 0: .*ndim/) { List.new([Numo::Int8.cast(5)]) }
    assert_empty segments_in
  end

  def test_a_dtype_without_a_class_is_for_the_other_list
    list = Shmarray::List.new([Shmarray::Array.create(:float16, 2)])
    found = List.attach(list.handle)
    assert_refused(TypeError, /float16; Shmarray::List.attach reads it/) { found[0] }
    assert_refused(TypeError, /float16; Shmarray::List.attach reads it/) { found.values }
    assert_equal [0.0, 0.0], Shmarray::List.attach(found.handle)[0].to_a
  end

  def test_a_file_has_arrays
    Dir.mktmpdir do |dir|
      List.new([Numo::SFloat[1, 2], nil]).save("#{dir}/list")
      found = List.load("#{dir}/list")
      assert_equal [List, [Numo::SFloat[1, 2], nil], true],
                   [found.class, found.to_a, Shared.shared?(found[0])]
    end
  end

  def test_a_list_is_no_array
    list = List.new([1])
    assert_refused(TypeError, /Numo::Shared::List.attach reads it/) { Shared.attach(list.handle) }
    refute Shared.shared?(list)
  end

  def test_workers_of_parallel_return_lists
    found = Numo::Parallel.map(1..3, in_processes: 2) do |i|
      { list: List.new([Numo::Int8.new(i).seq]), part: List.new([1, 2, i])[1..] }
    end
    assert_equal [[0], [0, 1], [0, 1, 2]], found.map { |one| one[:list][0].to_a }
    assert_equal [[2, 1], [2, 2], [2, 3]], found.map { |one| one[:part].to_a }
  end

  def test_the_collector_may_always_run
    GC.stress = true
    list = List.new([{ s: "a", a: Numo::Int8[1, 2], l: [1.5] },
                     { "s" => nil, "a" => nil, "l" => [] }])
    assert_equal [{ s: "a", a: Numo::Int8[1, 2], l: [1.5] }, { s: nil, a: nil, l: [] }], list.to_a
    assert_equal [1, 2], list.field("a")[0..].values.to_a
  ensure
    GC.stress = false
  end
end
