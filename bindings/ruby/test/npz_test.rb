# frozen_string_literal: true

require_relative "npy_helper"

# NPZ files: the members of an archive as a collection.
class NpzTest < SharedMemoryTest
  include NpyFiles

  def archive(**options)
    zipped({ "a b" => array("<f8", [3]) }, array, "as it is", x: array("|u1"), **options)
  end

  def test_members_come_back_stored_and_deflated
    [false, true].each do |compressed|
      text = archive(compressed: compressed, threads: 2)
      File.binwrite(path("a.npz"), text)
      [{ bytes: text }, path("a.npz"), Pathname(path("a.npz")), StringIO.new(text)].each do |file|
        npz = file.is_a?(Hash) ? Shmarray.load_npz(**file) : Shmarray.load_npz(file)
        assert_equal ["x", "a b", "arr_0", "arr_1"], npz.files
        assert_equal [array("|u1"), array("<f8", [3]), array, "as it is"], npz.to_h.values
        assert_equal Encoding::BINARY, npz["arr_1"].encoding
      end
    end
  end

  def test_members_are_aligned_on_request_in_a_file_and_in_an_io
    Shmarray.save_npz(path("a.npz"), array, x: array("|u1"), align: 64)
    [File.binread(path("a.npz")), archive(align: 64)].each do |text|
      starts = text.enum_for(:scan, "\x93NUMPY".b).map { Regexp.last_match.begin(0) }
      assert_equal [0], starts.map { |start| start % 64 }.uniq
      assert_equal array("|u1"), Shmarray.load_npz(bytes: text)["x"]
    end
    assert_refused(ArgumentError, /align/) { archive(align: 3) }
    [2.5, array, nil].each do |wrong|
      assert_refused(TypeError, /align/) { archive(align: wrong) }
    end
  end

  # The size of a member follows its data in a pipe, which cannot be written twice.
  def test_an_archive_goes_through_a_pipe
    reader, writer = IO.pipe(binmode: true)
    text = Thread.new { reader.read }
    Shmarray.save_npz(writer, array, x: array("|u1"))
    writer.close
    assert_equal [array("|u1"), array], Shmarray.load_npz(bytes: text.value, &:to_h).values
  end

  def test_it_is_a_collection_as_a_hash_is
    npz = Shmarray.load_npz(bytes: archive)
    assert_equal [4, 4, false, 4], [npz.size, npz.length, npz.empty?, npz.each.size]
    assert_equal npz.files, npz.keys
    assert_equal [true, true, true, false],
                 [npz.key?("x"), npz.include?(:x), npz.member?("x.npy"), npz.has_key?("y")]
    assert_equal [array("|u1")] * 3, [npz["x"], npz[:x], npz["x.npy"]]
    assert_equal npz.to_h, npz.each.to_h
    assert_equal npz.files, npz.map { |name, _| name }
    assert_same npz, npz.each { |pair| assert_equal 2, pair.size }
    assert_equal({ "x" => "|u1", "a b" => "<f8" },
                 npz.slice(:x, "a b", "no").to_h { |name, a| [name, a.dtype] })
    assert_equal(["X"], npz.to_h { |name, _| [name.upcase, 1] }.keys.first(1))
    assert_match(/\A#<Shmarray::NpzFile x, a b, arr_0, arr_1>\z/, npz.inspect)
  end

  def test_what_is_missing_is_missing_as_in_a_hash
    npz = Shmarray.load_npz(bytes: archive)
    assert_nil npz["no"]
    assert_equal [5, "NO"], [npz.fetch("no", 5), npz.fetch("no", &:upcase)]
    assert_equal array("|u1"), npz.fetch("x")
    error = assert_raises(KeyError) { npz.fetch("no") }
    assert_equal [npz, "no", 'no member "no"'], [error.receiver, error.key, error.message]
    assert_raises(TypeError) { npz[0] }
  end

  def test_two_members_of_one_short_name_are_told_apart
    text = zipped({ "a" => "bytes", "a.npy" => saved(array) }, b: array)
    npz = Shmarray.load_npz(bytes: text)
    assert_equal ["b", "a", "a.npy"], npz.files
    assert_equal ["bytes", array], [npz["a"], npz["a.npy"]]
  end

  def test_a_file_is_closed_at_the_end_of_a_block
    file = nil
    text = archive
    assert_equal 4, Shmarray.load_npz(bytes: text) { |npz| (file = npz).size }
    assert_equal [true, ["x", "a b", "arr_0", "arr_1"]], [file.closed?, file.files]
    assert_refused(IOError, /closed/) { file["x"] }
    assert_raises(IOError) { file.to_h }
    assert_nil file.close
    assert_raises(KeyError) { Shmarray.load_npz(bytes: text) { |npz| (file = npz).fetch("no") } }
    assert file.closed?
    a = Shmarray.load_npz(bytes: text) { |npz| npz["x"] }
    assert_equal array("|u1"), a
  end

  def test_closing_closes_the_fd
    File.binwrite(path("a.npz"), archive)
    # Those of this file alone: a collection may close fds that other tests left.
    file = File.realpath(path("a.npz"))
    fds = -> { Dir.glob("/proc/self/fd/*").count { |fd| link_of(fd) == file } }
    npz = Shmarray.load_npz(path("a.npz"))
    assert_equal 1, fds.call
    npz.close
    assert_equal 0, fds.call
  end

  def link_of(file)
    File.readlink(file)
  rescue Errno::ENOENT
    nil # closed meanwhile
  end

  def test_an_archive_without_members
    assert_equal({}, Shmarray.load_npz(bytes: zipped, &:to_h))
  end

  def test_what_comes_out_can_be_saved_again
    text = archive
    assert_equal text, zipped(Shmarray.load_npz(bytes: text, &:to_h).transform_keys(&:itself))
  end

  def test_saving_refuses_what_no_archive_has
    { [5] => TypeError, [nil] => TypeError, [[1, 2]] => TypeError,
      [{ "arr_0" => array }, array] => ArgumentError }.each do |arrays, type|
      assert_raises(type, arrays.inspect) { Shmarray.save_npz(path("a.npz"), *arrays) }
    end
    assert_raises(ArgumentError) { Shmarray.save_npz(path("a.npz"), compressed: array) }
    [0, -1, 2**70].each do |threads|
      assert_raises(ArgumentError) { Shmarray.save_npz(path("a.npz"), threads: threads) }
    end
    refute File.exist?(path("a.npz"))
  end

  def test_an_archive_is_not_made_or_copied_by_other_means
    npz = Shmarray.load_npz(bytes: archive)
    assert_raises(TypeError) { npz.dup }
    assert_raises(NoMethodError, TypeError) { Shmarray::NpzFile.new }
    assert_raises(NoMethodError) { Shmarray::NpzFile.open("a.npz") }
    assert_raises(TypeError) { Marshal.dump(npz) }
  end

  # Every String that is a source may be collected, moved or changed afterwards.
  def test_the_bytes_live_as_long_as_the_archive
    text = archive
    npz = Shmarray.load_npz(bytes: text)
    text.replace("x" * text.bytesize)
    text = nil
    GC.start
    GC.compact if GC.respond_to?(:compact)
    Array.new(1000) { |n| "y" * n }
    assert_equal [array("|u1"), array], [npz["x"], npz["arr_0"]]
  end
end
