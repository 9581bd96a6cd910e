# frozen_string_literal: true

require_relative "npy_helper"

# NPY files: loaded, and saved.
class NpyTest < SharedMemoryTest
  include NpyFiles

  def test_an_array_of_every_dtype_and_order_comes_back
    others = [">i4", ">f8", "<M8[ns]", "|S5", "|V3"]
    (Shmarray::DTYPES.grep(/\A[<|]/) + others).each do |dtype|
      a = array(dtype)
      [a, a.transpose, a[1], a[true, 1..], a[0...0]].each do |source|
        Shmarray.save_npy(path("a.npy"), source)
        loaded = Shmarray.load_npy(path("a.npy"))
        assert_equal [source.dtype, source.shape], [loaded.dtype, loaded.shape]
        assert_equal source.to_bytes, loaded.to_bytes, [dtype, source.strides].inspect
      end
    end
  end

  def test_an_array_without_dimensions_comes_back
    a = Shmarray::Array.create(:float64, []).fill(2.5)
    loaded = Shmarray.load_npy(bytes: saved(a))
    assert_equal [[], 2.5], [loaded.shape, loaded.to_a]
  end

  def test_the_order_of_the_file_is_kept
    a = array
    assert_equal [12, 4], Shmarray.load_npy(bytes: saved(a)).strides
    assert_equal [4, 12], Shmarray.load_npy(bytes: saved(a.transpose)).strides
    assert_equal [4, 12], Shmarray.load_npy(StringIO.new(saved(a.transpose))).strides
  end

  def test_a_file_is_a_path_an_io_or_bytes
    a = array
    file = path("a.npy")
    assert_nil Shmarray.save_npy(Pathname(file), a)
    text = File.binread(file)
    in_memory = Shmarray::Array.create(:uint8, text.bytesize)
    in_memory[nil] = text.bytes
    [-> { Shmarray.load_npy(file) }, -> { Shmarray.load_npy(Pathname(file)) },
     -> { Shmarray.load_npy(bytes: text) }, -> { Shmarray.load_npy(bytes: in_memory) },
     -> { Shmarray.load_npy(StringIO.new(text)) },
     -> { File.open(file, "rb") { |io| Shmarray.load_npy(io) } }].each do |load|
      assert_equal a, load.call
    end
    assert_equal text, saved(a)
  end

  def test_arrays_follow_each_other_in_an_io
    one = array
    other = array("<f8", [5])
    IO.pipe(binmode: true) do |reader, writer|
      [one, other].each { |each| Shmarray.save_npy(writer, each) }
      writer << "more"
      writer.close
      assert_equal facts(one), facts(Shmarray.load_npy(reader))
      assert_equal facts(other), facts(Shmarray.load_npy(reader))
      assert_equal "more", reader.read
    end
  end

  # An IO of which each read returns a few bytes.
  Slow = Struct.new(:io) do
    def read(count) = io.read([count, 5].min)
  end

  def test_an_io_may_return_less_than_it_is_asked_for
    a = array
    assert_equal a, Shmarray.load_npy(Slow.new(StringIO.new(saved(a))))
  end

  def test_a_large_array_passes_through_an_io_in_pieces
    a = array("|u1", [3, 1 << 20])
    text = saved(a)
    assert_equal a, Shmarray.load_npy(StringIO.new(text))
    Shmarray.save_npy(path("a.npy"), a)
    assert_equal text, File.binread(path("a.npy"))
  end

  def test_an_io_that_is_none_is_refused_and_leaves_nothing
    text = npy("'|i1'", "(3,)", "abc")
    [Class.new { def read(_) = 5 }.new, Class.new { def read(_) = "x" * 100 }.new].each do |io|
      assert_refused(TypeError, /#read returned/) { Shmarray.load_npy(io) }
    end
    broken = Class.new do
      def initialize(text) = @text = [text[0, 12], text[12..-4], nil]
      def read(_) = @text.shift || raise(IOError, "the line is cut")
    end
    assert_raises(IOError) { Shmarray.load_npy(broken.new(text)) }
    assert_empty segments_in
  end

  def test_an_error_of_an_io_that_is_written_to_is_raised
    io = Object.new
    def io.write(_) = raise(KeyError, "no room")
    assert_raises(KeyError) { Shmarray.save_npy(io, array) }
    assert_raises(KeyError) { Shmarray.save_npz(io, array, compressed: true) }
    def io.write(_) = throw(:out, 7)
    assert_equal(7, catch(:out) { Shmarray.save_npy(io, array) })
  end

  def test_saving_to_what_cannot_be_written_says_so_and_leaves_nothing
    before = Dir.children(ENV.fetch("SHMARRAY_DIR"))
    assert_raises(Errno::ENOENT) { Shmarray.save_npy(path("no/a.npy"), array) }
    assert_raises(ArgumentError) { Shmarray.save_npy(ENV.fetch("SHMARRAY_DIR"), array) }
    [5, nil, "text", [1, 2], Object.new].each do |object|
      assert_raises(TypeError, object.inspect) { Shmarray.save_npy(path("a.npy"), object) }
    end
    assert_raises(TypeError) { Shmarray.save_npy(5, array) }
    there = Dir.children(ENV.fetch("SHMARRAY_DIR")).grep_v(/\Ashmarray-/)
    assert_empty there - before
  end

  def test_a_file_is_replaced_as_a_whole_and_keeps_its_mode
    file = path("a.npy")
    Shmarray.save_npy(file, array)
    File.chmod(0o640, file)
    old = File.open(file, "rb")
    Shmarray.save_npy(file, array("<f8", [4]))
    assert_equal [array, 0o640], [Shmarray.load_npy(old), File.stat(file).mode & 0o777]
    assert_equal [4], Shmarray.load_npy(file).shape
  ensure
    old&.close
  end

  def test_a_file_with_two_names_has_the_new_contents_under_both
    files = [path("a"), path("other")]
    Shmarray.save_npy(files[0], array)
    File.link(*files)
    Shmarray.save_npy(files[0], array("<f8", [4]))
    assert_equal([[4], [4]], files.map { |file| Shmarray.load_npy(file).shape })
    Shmarray.save_npz(files[0], a: array)
    assert_equal([["a"]] * 2, files.map { |file| Shmarray.load_npz(file, &:files) })
  end

  def test_the_standard_output_is_a_path_also_when_it_is_a_pipe
    script = 'require "shmarray"
              Shmarray.public_send(ARGV[0], "/dev/stdout", Shmarray::Array.create(:int8, 300_000))'
    paths = $LOAD_PATH.flat_map { |path| ["-I", path] }
    load = { "save_npy" => ->(text) { Shmarray.load_npy(bytes: text) },
             "save_npz" => ->(text) { Shmarray.load_npz(bytes: text) { |npz| npz["arr_0"] } } }
    load.each do |save, load|
      text, status = Open3.capture2(RbConfig.ruby, "-W0", *paths, "-e", script, save, binmode: true)
      assert status.success?
      assert_equal [300_000], load.call(text).shape
    end
  end

  def test_many_files_become_one_array
    files = Array.new(40) { |n| path("#{n}.npy") }
    files.each_with_index { |file, n| Shmarray.save_npy(file, array[true, 0..1].dup.fill(n)) }
    progress = []
    batch = Shmarray.load_batch(files, threads: 2) { |*done| progress << done }
    assert_equal [[40, 2, 2], Array.new(40) { |n| [[n] * 2] * 2 }], [batch.shape, batch.to_a]
    assert_equal [40, 40], progress.last
    assert_equal progress, progress.sort
    texts = files.map { |file| File.binread(file) }
    assert_equal batch, Shmarray.load_batch(bytes: texts)
    assert_equal batch, Shmarray.load_batch(files.each.map { |file| Pathname(file) })
  end

  def test_files_in_fortran_order_are_put_in_c_order
    a = array
    batch = Shmarray.load_batch(bytes: [saved(a), saved(a.transpose.dup.transpose)])
    assert_equal [a.to_a, a.to_a], batch.to_a
  end

  def test_an_exception_of_the_block_ends_a_batch
    texts = [saved(array)] * 3
    assert_raises(KeyError) { Shmarray.load_batch(bytes: texts) { raise KeyError } }
    assert_equal(8, Shmarray.load_batch(bytes: texts) { break 8 })
    assert_equal(9, catch(:out) { Shmarray.load_batch(bytes: texts) { throw :out, 9 } })
    collect
    assert_empty segments_in
  end

  def test_a_ractor_loads_and_saves
    Warning[:experimental] = false
    loaded = Ractor.new(path("a.npy")) do |file|
      Shmarray.save_npy(file, Shmarray::Array.create(:int8, 2).fill(3))
      Shmarray.load_npz(bytes: StringIO.new("".b).tap do |io|
        Shmarray.save_npz(io, Shmarray.load_npy(file))
      end.string) { |npz| npz["arr_0"].to_a }
    end.take
    assert_equal [3, 3], loaded
  end
end
