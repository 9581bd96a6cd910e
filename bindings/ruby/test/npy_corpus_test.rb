# frozen_string_literal: true

require_relative "npy_helper"
require "rubygems/package"
require "tmpdir"
require "zlib"

# Files of other programs (core/tests/behaviour/npy_corpus) read as NumPy reads them, or are refused
# by an ArgumentError.
class NpyCorpusTest < SharedMemoryTest
  include NpyFiles

  FOLDER = File.expand_path("../../../core/tests/behaviour/npy_corpus", __dir__)
  FILES = Dir.mktmpdir
  Minitest.after_run { FileUtils.rm_rf(FILES) }
  Zlib::GzipReader.open(File.join(FOLDER, "files.tar.gz")) do |packed|
    Gem::Package::TarReader.new(packed).each do |entry|
      File.binwrite(File.join(FILES, entry.full_name), entry.read || "")
    end
  end
  EXPECTED = JSON.parse(File.read(File.join(FOLDER, "expected.json"), encoding: "UTF-8"))

  # Files of this kind, with what they must read as.
  def each_file(ending)
    files = EXPECTED.select { |expected| expected["file"].end_with?(ending) }
    assert_operator files.size, :>, 50
    files.each { |expected| yield File.join(FILES, expected["file"]), expected }
  end

  # Returns the block's result; nil if it is refused, as it may be.
  def read(expected, name)
    result = yield
    refute expected["refused"] && !expected["either"], "#{name} is not refused"
    result
  rescue ArgumentError => error
    members = expected.fetch("members", {}).values
    may_be = expected["refused"] || expected["either"] || members.all? { |each| each["refused"] }
    assert may_be, "#{name}: #{error.message}"
    nil
  end

  def assert_reads(expected, array, name)
    if array.is_a?(String)
      assert_equal expected.values_at("bytes", "crc32"), [array.bytesize, Zlib.crc32(array)], name
    else
      found = [array.shape, Zlib.crc32(array.to_bytes)]
      assert_equal expected.values_at("shape", "crc32"), found, name
    end
  end

  def test_every_npy_file_reads_as_it_should
    each_file(".npy") do |path, expected|
      text = File.binread(path)
      File.open(path, "rb") do |io|
        loaded = [-> { Shmarray.load_npy(path) }, -> { Shmarray.load_npy(bytes: text) },
                  -> { Shmarray.load_npy(io) }].map { |load| read(expected, path) { load.call } }
        next unless expected["descr"] && loaded.all?

        loaded.each { |array| assert_reads(expected, array, path) }
        assert_equal expected.fetch("behind", 0), io.read.bytesize, path
      end
    end
  end

  def test_every_npz_file_reads_as_it_should
    each_file(".npz") do |path, expected|
      [{ bytes: File.binread(path) }, path].each do |file|
        open = -> { file == path ? Shmarray.load_npz(file) : Shmarray.load_npz(**file) }
        npz = read(expected, path, &open)
        next unless npz && expected["members"]

        # Where `a` and `a.npy` are two members, the second has its whole name here.
        files = npz.files.map do |name|
          npz.key?(name.delete_suffix(".npy")) ? name.delete_suffix(".npy") : name
        end
        assert_equal expected["files"], files, path
        expected["members"].each do |name, member|
          array = read(member, [path, name]) { npz.fetch(name) }
          assert_reads(member, array, [path, name]) if array && member["crc32"]
        end
      end
    end
  end

  # In Numo a dtype may lack its class, and that is the only other error.
  def test_numo_reads_what_it_has_classes_for
    skip "no Numo gem is installed" unless NUMO
    count = 0
    each_file(".npy") do |path, expected|
      array = read(expected, path) { Numo::Shared.load_npy(path) } or next
      count += 1
      there = Shmarray::Array.attach(Numo::Shared.handle(array))
      assert_reads(expected, there, path) if expected["descr"]
    rescue TypeError => error
      assert_match(/\ANumo has no class for dtype /, error.message)
    end
    assert_operator count, :>, 30
  end
end
