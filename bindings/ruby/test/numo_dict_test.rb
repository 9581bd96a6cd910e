# frozen_string_literal: true

require_relative "helper"

# Dictionaries of Numo's arrays.
class NumoDictTest < NumoTest
  Dict = NUMO && Numo::Shared::Dict

  def test_arrays_of_every_class_come_out_in_place
    CLASSES.each do |type|
      arrays = { "a" => type.new(3).seq, "b" => nil, "c" => type.new(2).seq(5) }
      dict = Dict.new(arrays)
      before = Shmarray.copied_bytes
      assert_equal arrays, dict.to_h
      assert_equal before, Shmarray.copied_bytes
      assert_instance_of type, dict[:a]
      assert dict["a"].frozen? && Shared.shared?(dict["a"])
      assert_equal [0, 1, 2, 5, 6], dict.values.values.to_a
    end
  end

  def test_its_parts_are_lists_of_numo
    dict = Dict.new({ 1 => Numo::Int8[1], 2 => Numo::Int8[2, 3] })
    assert_instance_of Numo::Shared::List, dict.values
    assert_equal Numo::Int64[0, 1, 3], dict.values.offsets
    assert_equal [Dict, Numo::Int8[2, 3]],
                 Marshal.load(Marshal.dump(dict)).then { |one| [one.class, one[2]] }
    assert_equal [Numo::Int8[1], Numo::Int8[2, 3]], Marshal.load(Marshal.dump(dict.values)).to_a
    assert_instance_of Shmarray::Array, Shmarray::Dict.attach(dict.handle)[1]
  end

  def test_arrays_that_differ_are_refused_by_the_key
    assert_refused(TypeError, /key "b": its value: it is an array of int16/) do
      Dict.new({ "a" => Numo::Int8[1], "b" => Numo::Int16[1] })
    end
  end

  def test_a_file_has_arrays
    Dir.mktmpdir do |dir|
      Dict.new({ "a" => Numo::SFloat[1, 2] }).save("#{dir}/dict")
      assert_equal Numo::SFloat[1, 2], Dict.load("#{dir}/dict")["a"]
    end
  end

  def test_a_dictionary_is_no_array
    dict = Dict.new({ "a" => 1 })
    assert_refused(TypeError, /Numo::Shared::Dict.attach reads it/) { Shared.attach(dict.handle) }
  end

  def test_workers_of_parallel_return_dictionaries
    found = Numo::Parallel.map(1..3, in_processes: 2) do |i|
      Dict.new({ i => Numo::Int8.new(i).seq })
    end
    assert_equal [[0], [0, 1], [0, 1, 2]], found.map.with_index(1) { |dict, i| dict[i].to_a }
  end
end
