# frozen_string_literal: true

require_relative "npy_helper"

# NPY and NPZ files that are broken or hostile: the error's class, the words that name the fault,
# and nothing left behind.
class NpyBadInputTest < SharedMemoryTest
  include NpyFiles

  def refused(words, type = ArgumentError, what = words)
    error = assert_raises(type, what.inspect) { yield }
    assert_equal type, error.class
    assert_match words, error.message, what.inspect
    assert_empty segments_in, what.inspect
  end

  # As bytes, as a path and as an IO.
  def refused_everywhere(words, text, load = :load_npy)
    File.binwrite(path("bad"), text)
    refused(words) { Shmarray.public_send(load, bytes: text) }
    refused(words) { Shmarray.public_send(load, path("bad")) }
    refused(words) { Shmarray.public_send(load, StringIO.new(text)) }
  end

  FILES = lambda do |t|
    good = t.npy("'<i4'", "(2,)", "\0" * 8)
    {
      "" => /magic/, "\x93NUM".b => /magic/, "PK\x03\x04#{"x" * 200}".b => /magic/,
      good.sub("\x01\x00".b, "\x09\x00".b) => /version: 9\.0/,
      good[0, 9] => /header length/, good[0, 40] => /header: \d+ bytes are needed/,
      good[0..-2] => /data: the elements take 8 bytes/,
      t.npy("'<i4'", "(2, -1)") => /header/,
      t.npy("'<i8'", "(4611686018427387904, 4)") => /shape/,
      t.npy("'<i4'", "(1000000000,)") => /data/,
      t.npy("'<i5'", "(2,)") => /descr/,
      t.npy("'<i4'", "__import__('os').getpid()") => /header|shape/,
      t.npy("'|O'", "(2,)") => /\|O.*Python objects/,
      t.npy("[('a', '|O'), ('b', '<i4')]", "(2,)") => /Python objects/
    }
  end

  def test_a_broken_npy_file_is_refused_with_its_fault
    FILES.call(self).each { |text, words| refused_everywhere(words, text) }
    good = npy("'<i4'", "(2,)", "\0" * 8)
    FILES.call(self).each do |text, words|
      refused(words) { Shmarray.load_batch(bytes: [text, text]) }
      refused(words) { Shmarray.load_batch(bytes: [good, text]) }
    end
  end

  def test_a_broken_path_of_a_file_is_named
    refused(/no-such-file/, Errno::ENOENT) { Shmarray.load_npy("no-such-file") }
    refused(/no-such-file/, Errno::ENOENT) { Shmarray.load_npz(Pathname("no-such-file")) }
    refused(/no-such-file/, Errno::ENOENT) { Shmarray.load_batch(["no-such-file"]) }
    refused(/regular file/) { Shmarray.load_npy(ENV.fetch("SHMARRAY_DIR")) }
    refused(/null byte/) { Shmarray.load_npy("a\0b") }
    File.binwrite(path("a.npy"), "x")
    refused(%r{/a\.npy: magic}) { Shmarray.load_npy(path("a.npy")) }
    refused(/give it as bytes:/) { Shmarray.load_npy(npy("'<i4'", "(2,)")) }
    refused(/give it as bytes:/) { Shmarray.load_npz(zipped) }
  end

  def test_what_is_neither_a_file_nor_bytes_is_refused
    [5, :a, [1], Object.new].each do |object|
      refused(//, TypeError) { Shmarray.load_npy(object) }
      refused(//, TypeError) { Shmarray.load_npz(object) }
      refused(/String/, TypeError) { Shmarray.load_npy(bytes: object) }
      refused(//, TypeError) { Shmarray.load_batch([object]) }
    end
    %i[load_npy load_npz load_batch].each do |load|
      refused(/bytes:/) { Shmarray.public_send(load) }
      refused(/bytes:/) { Shmarray.public_send(load, "a", bytes: "b") }
    end
    refused(/keyword/) { Shmarray.load_npz("a", colour: 1) }
    refused(/at least one/) { Shmarray.load_batch([]) }
  end

  def test_bytes_that_do_not_lie_side_by_side_are_refused
    a = Shmarray::Array.create(:uint8, [4, 4])
    assert_raises(ArgumentError) { Shmarray.load_npy(bytes: a[true, 0..1]) }
  end

  def test_a_file_that_differs_from_the_first_of_a_batch_is_named
    one = npy("'<i4'", "(2,)", "\0" * 8)
    { npy("'<i4'", "(1, 2)", "\0" * 8) => /1 of the batch.*shape/,
      npy("'<f4'", "(2,)", "\0" * 8) => /1 of the batch.*descr/ }.each do |other, words|
      refused(words) { Shmarray.load_batch(bytes: [one, other]) }
    end
  end

  def test_an_archive_that_is_cut_anywhere_is_refused
    text = zipped_of_bytes
    (0...text.bytesize).step(7) do |count|
      refused(/invalid file/) { Shmarray.load_npz(bytes: text[0, count], &:to_h) }
    end
  end

  # Without a segment.
  def zipped_of_bytes(**options)
    zipped({ "a.npy" => npy("'<i4'", "(2,)", "\1\2\3\4" * 2), "b" => "bytes" }, **options)
  end

  def test_a_changed_member_fails_its_crc
    text = zipped_of_bytes
    text.setbyte(text.index("\1\2\3\4".b), 9)
    File.binwrite(path("a.npz"), text)
    collect # others' files
    fds = Dir.children("/proc/self/fd").size
    refused(/member "a\.npy": CRC/) { Shmarray.load_npz(path("a.npz"), verify: true) }
    assert_equal fds, Dir.children("/proc/self/fd").size
    refused(/member "a\.npy": CRC/) { Shmarray.load_npz(bytes: text) { |npz| npz["a"] } }
    refused(/member "a\.npy": CRC/) { Shmarray.load_npz(bytes: text, &:to_h) }
    assert_equal "bytes", Shmarray.load_npz(bytes: text) { |npz| npz["b"] }
    assert_equal 2, Shmarray.load_npz(bytes: zipped_of_bytes, verify: true, &:size)
  end

  def test_a_bomb_is_refused_by_the_limit_that_it_names
    text = zipped({ "zeros.npy" => npy("'|u1'", "(4000000,)", "\0" * 4_000_000) },
                  compressed: true)
    assert_operator text.bytesize, :<, 10_000
    npz = Shmarray.load_npz(bytes: text, max_bytes: 1_000_000)
    assert_equal ["zeros"], npz.files
    refused(/max_bytes.*1000000/) { npz["zeros"] }
    refused(/max_bytes/) { npz.to_h }
    refused(/max_bytes/) { Shmarray.load_npz(bytes: text, max_bytes: 0, verify: true) }
    assert_equal 4_000_000, Shmarray.load_npz(bytes: text) { |each| each["zeros"].size }
    [-1, 2**64].each do |limit|
      assert_raises(ArgumentError) { Shmarray.load_npz(bytes: text, max_bytes: limit) }
    end
  end

  def test_a_member_with_python_objects_is_listed_and_not_loaded
    npz = Shmarray.load_npz(bytes: zipped({ "meta.npy" => objects, "b" => "bytes" }))
    assert_equal %w[meta b], npz.files
    assert npz.key?("meta")
    refused(/member "meta\.npy": .*Python objects/) { npz["meta"] }
    refused(/member "meta\.npy"/) { npz.to_h }
    assert_equal({ "b" => "bytes" }, npz.slice("b"))
  end

  def test_a_name_is_no_path_and_of_two_members_with_one_name_the_later_counts
    text = zipped_of_bytes.gsub("a.npy".b, "../np".b)
    assert_equal(["../np", "b"], Shmarray.load_npz(bytes: text, &:files))
    text = zipped({ "aa" => "x", "bb" => "y" }).gsub("bb".b, "aa".b)
    assert_equal({ "aa" => "y" }, Shmarray.load_npz(bytes: text, &:to_h))
  end

  def test_full_shared_memory_is_said_and_leaves_nothing
    text = npy("'|u1'", "(3000000,)", "\0" * 3_000_000)
    archive = zipped({ "a.npy" => text })
    in_small_tmpfs("size=1m") do
      [-> { Shmarray.load_npy(bytes: text) }, -> { Shmarray.load_npy(StringIO.new(text)) },
       -> { Shmarray.load_npz(bytes: archive, &:to_h) },
       -> { Shmarray.load_batch(bytes: [text]) }].each do |load|
        refused(/shared memory is full/, Errno::ENOSPC) { load.call }
      end
    end
  end
end
