# frozen_string_literal: true

require_relative "npy_helper"

# NPY and NPZ files as Numo arrays.
class NumoNpyTest < NumoTest
  include NpyFiles

  def test_every_class_comes_back_in_shared_memory
    CLASSES.each do |type|
      a = type.new(2, 3).seq
      views = [a, a.transpose, a.reverse, a[(0..-1) % 2, 1..2], a[[1, 0], true], Shared.share(a)]
      views.each do |source|
        Shared.save_npy(path("a.npy"), source)
        [Shared.load_npy(path("a.npy")), Shared.load_npy(bytes: File.binread(path("a.npy"))),
         File.open(path("a.npy"), "rb") { |io| Shared.load_npy(io) }].each do |loaded|
          assert_equal [type, source], [loaded.class, loaded]
          assert Shared.shared?(loaded)
        end
      end
    end
  end

  def test_fortran_order_becomes_a_view_that_can_be_written
    a = Shared.load_npy(bytes: saved(array.transpose))
    assert_equal array.transpose.to_a, a.to_a
    a[0, 0] = 7
    assert_equal [4, 12], JSON.parse(Shared.handle(a))["strides"]
    assert_equal 7, Shared.attach(Shared.handle(a))[0, 0]
  end

  def test_swapped_bytes_are_saved_in_order
    a = Numo::Int32[1, 2, 3]
    assert_equal [1, 2, 3], Shared.load_npy(bytes: saved(a.swap_byte)).to_a
  end

  def test_a_dtype_that_numo_lacks_is_named_before_anything_is_loaded
    { "|b1" => "bool", "<f2" => "float16", ">i4" => ">i4", "|S5" => "|S5",
      "<M8[s]" => "<M8[s]" }.each do |dtype, name|
      a = array(dtype)
      text = saved(a)
      archive = zipped(x: a)
      a.close
      npz = Shared.load_npz(bytes: archive)
      [-> { Shared.load_npy(bytes: text) }, -> { Shared.load_npy(StringIO.new(text)) },
       -> { Shared.load_batch(bytes: [text]) }].each do |load|
        message = assert_raises(TypeError, dtype) { load.call }.message
        assert_match(/dtype #{Regexp.escape(name)}; Shmarray\.load_npy reads it/, message)
      end
      message = assert_raises(TypeError, dtype) { npz.to_h }.message
      assert_match(/member "x\.npy": .*#{Regexp.escape(name)}; Shmarray\.load_npz/, message)
      assert_empty segments_in
    end
  end

  def test_classes_that_cannot_be_shared_cannot_be_saved
    [Numo::Bit[1, 0], Numo::RObject[:a]].each do |object|
      message = assert_raises(TypeError) { Shared.save_npy(path("a.npy"), object) }.message
      assert_match(/#{object.class} cannot be saved/, message)
      assert_raises(TypeError) { Shared.save_npz(path("a.npz"), x: object) }
    end
    unfilled = Numo::Int8.new(3)
    assert_raises(ArgumentError) { Shared.save_npy(path("a.npy"), unfilled) }
    refute File.exist?(path("a.npy"))
  end

  def test_an_archive_has_numo_arrays
    arrays = [Numo::Int8[1], Shmarray::Array.create(:int8, 2)]
    Shared.save_npz(path("a.npz"), *arrays, text: "bytes", x: Numo::DFloat[2])
    npz = Shared.load_npz(path("a.npz"))
    assert_instance_of Shared::NpzFile, npz
    assert_equal({ "text" => "bytes", "x" => Numo::DFloat[2], "arr_0" => Numo::Int8[1],
                   "arr_1" => Numo::Int8[0, 0] }, npz.to_h)
    assert_equal [true, true], [Shared.shared?(npz[:x]), npz.to_h.key?("text")]
  end

  def test_files_become_one_array
    texts = [1, 2].map { |value| saved(Numo::UInt8.new(2, 2).fill(value)) }
    batch = Shared.load_batch(bytes: texts)
    assert_equal [Numo::UInt8, [[[1] * 2] * 2, [[2] * 2] * 2]], [batch.class, batch.to_a]
  end

  def test_more_private_arrays_than_there_is_room_for_guards_are_saved
    arrays = Array.new(100) { |n| Numo::Int32[n] }
    Shared.save_npz(path("a.npz"), *arrays)
    assert_equal arrays, Shared.load_npz(path("a.npz"), &:to_h).values
  end

  def test_sizes_of_zero_come_back
    [[0], [0, 3], [3, 0]].each do |shape|
      loaded = Shared.load_npy(bytes: saved(Shared.new(Numo::Int16, shape)))
      assert_equal [Numo::Int16, shape], [loaded.class, loaded.shape]
    end
  end
end
