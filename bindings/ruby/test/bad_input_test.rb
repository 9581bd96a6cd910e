# frozen_string_literal: true

require_relative "helper"

# Bad input: the error's class, the words that name the fault, and nothing left behind.
class BadInputTest < SharedMemoryTest
  GOOD = '{"shmarray":1,"segment":"abcdefghijklmnopqrstuvwx","generation":7,"offset":0,' \
         '"dtype":"<i4","shape":[2,3],"strides":[12,4]}'

  HANDLES = {
    GOOD => [Errno::ENOENT, /abcdefghijklmnopqrstuvwx/],
    "" => [ArgumentError, /name/],
    "no-such-name" => [Errno::ENOENT, /no-such-name/],
    "a/b" => [ArgumentError, %r{a/b}],
    "../passwd" => [ArgumentError, /passwd/],
    "{" => [ArgumentError, /handle/],
    "#{GOOD}x" => [ArgumentError, /handle/],
    GOOD.sub('"offset":0,', "") => [ArgumentError, /offset/],
    GOOD.sub('"offset":0', '"offset":-1') => [ArgumentError, /offset/],
    GOOD.sub('"offset":0', '"offset":0,"offset":0') => [ArgumentError, /offset/],
    GOOD.sub('"offset":0', '"offset":0,"colour":1') => [ArgumentError, /colour/],
    GOOD.sub('"generation":7', '"generation":null') => [ArgumentError, /generation/],
    GOOD.sub('"shape":[2,3]', '"shape":[2]') => [ArgumentError, /strides/],
    GOOD.sub('"shape":[2,3]', '"shape":[2,null]') => [ArgumentError, /shape/],
    GOOD.sub('"<i4"', '"|O8"') => [ArgumentError, /dtype/],
    GOOD.sub('"<i4"', '"<i5"') => [ArgumentError, /dtype/],
    GOOD.sub('"shmarray":1', '"shmarray":2') => [ArgumentError, /shmarray/],
    GOOD.sub("abcdef", "../../") => [ArgumentError, /segment/],
    "x" * 200_000 => [ArgumentError, /name/],
    "{#{" " * 200_000}" => [ArgumentError, /handle/],
    nil => [TypeError, /nil/],
    5 => [TypeError, /5/]
  }.freeze

  CREATES = {
    [:int32, [2**62, 2**62]] => [ArgumentError, /shape/],
    [:int32, [2**64]] => [ArgumentError, /shape/],
    [:int32, [2**62, 0, 2**62]] => [ArgumentError, /shape/],
    [:int32, [-1]] => [ArgumentError, /shape/],
    [:int32, [1] * 65] => [ArgumentError, /shape/],
    [:int32, ["2"]] => [TypeError, /shape/],
    [:int32, nil] => [TypeError, /shape/],
    [:int32, 2.5] => [TypeError, /shape/],
    [:object, 2] => [TypeError, /object/],
    ["|O8", 2] => [TypeError, /\|O8/],
    ["<i3", 2] => [TypeError, /<i3/],
    [5, 2] => [TypeError, /5/],
    [:int32, 2, { name: "a/b" }] => [ArgumentError, %r{a/b}],
    [:int32, 2, { name: "" }] => [ArgumentError, /name/],
    [:int32, 2, { name: "x" * 65 }] => [ArgumentError, /name/],
    [:int32, 2, { name: "taken" }] => [Errno::EEXIST, /taken/],
    [:int32, 2, { name: 7 }] => [TypeError, /String/],
    [:int32, 2, { persist: true }] => [ArgumentError, /persist/],
    [:int32, 2, { order: :K }] => [ArgumentError, /order/],
    [:int32, 2, { mode: 0o7777 }] => [ArgumentError, /mode/],
    [:int32, 2, { mode: 0o400 }] => [ArgumentError, /mode/],
    [:int32, 2, { colour: 1 }] => [ArgumentError, /colour/]
  }.freeze

  def test_a_text_that_is_no_handle_is_refused_with_its_field
    HANDLES.each do |text, (type, words)|
      attaches.each { |attach| refused(type, words, text.to_s[0, 90]) { attach.call(text) } }
    end
    assert_empty segments_in
  end

  def test_an_array_that_cannot_be_is_refused_with_its_argument
    array = Shmarray::Array.create(:int8, 1, name: "taken")
    CREATES.each do |(dtype, shape, options), (type, words)|
      refused(type, words, [dtype, shape, options]) do
        Shmarray::Array.create(dtype, shape, **options.to_h)
      end
      next unless NUMO && dtype == :int32

      refused(type, words, [dtype, shape, options]) do
        Numo::Shared.new(Numo::Int32, shape, **options.to_h)
      end
    end
    assert_equal 2, segments_in.size, "the segment and the name of #{array.inspect}"
  end

  def test_a_handle_that_leaves_its_segment_is_refused
    a = Shmarray::Array.create(:int32, [2, 3])
    { '"shape":[2,3]' => '"shape":[2,4]', '"strides":[12,4]' => '"strides":[-12,4]',
      '"offset":0' => '"offset":4',
      '"dtype":"<i4"' => '"dtype":"<i8"' }.each do |from, to|
      refused(ArgumentError, /shape, strides, offset/, to) do
        Shmarray::Array.attach(a.handle.sub(from, to))
      end
    end
  end

  def test_a_stale_handle_is_refused
    a = Shmarray::Array.create(:int32, 3)
    stale = a.handle.sub(/"generation":(\d+)/) { "\"generation\":#{$1.to_i ^ 1}" }
    attaches.each do |attach|
      refused(Shmarray::StaleHandleError, /stale handle/, stale) { attach.call(stale) }
    end
  end

  def test_a_file_that_is_no_segment_is_refused
    path = File.join(ENV.fetch("SHMARRAY_DIR"), "shmarray-name-noise")
    File.binwrite(path, Random.new(1).bytes(8192))
    attaches.each { |attach| refused(Shmarray::Error, /noise/, "noise") { attach.call("noise") } }
    File.delete(path)
  end

  def test_a_class_that_cannot_be_shared_is_refused
    skip "no Numo gem is installed" unless NUMO
    { Numo::Bit => /Bit.*bytes/, Numo::RObject => /RObject.*objects/, Numo::NArray => /NArray/,
      Integer => /Integer/,
      Class.new(Numo::Int32) => /cannot be shared/, 5 => /5/ }.each do |type, words|
      refused(TypeError, words, type) { Numo::Shared.new(type, 3) }
    end
    [Numo::Bit[1, 0], Numo::RObject[:a], [1, 2], nil, "text"].each do |object|
      refused(TypeError, /shared|NArray/, object) { Numo::Shared.share(object) }
      refused(TypeError, /shared|NArray/, object) { Numo::Shared.handle(object) }
    end
    refused(ArgumentError, /not in shared memory/, "private") { Numo::Shared.handle(Numo::Int8[1]) }
    refused(ArgumentError, /no elements/, "unallocated") { Numo::Shared.share(Numo::Int8.new(3)) }
    assert_empty segments_in
  end

  def test_a_dtype_that_numo_lacks_is_named
    skip "no Numo gem is installed" unless NUMO
    { "|b1" => /bool/, "<f2" => /float16/, ">i4" => />i4/, "|S5" => /S5/ }.each do |dtype, words|
      a = Shmarray::Array.create(dtype, 3)
      refused(TypeError, words, dtype) { Numo::Shared.attach(a.handle) }
      refused(TypeError, /Shmarray::Array\.attach/, dtype) { Numo::Shared.attach(a.handle) }
      assert_equal a.to_bytes, Shmarray::Array.attach(a.handle).to_bytes
    end
  end

  def test_layouts_that_numos_loops_cannot_read_are_refused
    skip "no Numo gem is installed" unless NUMO
    a = Shmarray::Array.create(:int32, 4)
    odd = a.handle.sub('"offset":0', '"offset":2').sub("[4]", "[2]")
    refused(ArgumentError, /aligned/, odd) { Numo::Shared.attach(odd) }
    steps = a.handle.sub('"shape":[4],"strides":[4]', '"shape":[2],"strides":[6]')
    refused(ArgumentError, /aligned/, steps) { Numo::Shared.attach(steps) }
    deep = Shmarray::Array.create(:int32, [1] * 64)
    refused(ArgumentError, /dimensions/, deep) { Numo::Shared.attach(deep.handle) }
    assert_equal 2, Shmarray::Array.attach(odd).size
  end

  def test_full_shared_memory_is_said_with_its_sizes
    in_small_tmpfs("size=256k") do
      array = Shmarray::Array.create(:uint8, 4096)
      error = refused(Errno::ENOSPC, /shared memory is full/, "1 MiB") do
        Shmarray::Array.create(:uint8, 1 << 20)
      end
      assert_match(/10\d{5} bytes asked, \d+ bytes free/, error.message)
      if NUMO
        refused(Errno::ENOSPC, /full/, "new") { Numo::Shared.new(Numo::UInt8, 1 << 20) }
        refused(Errno::ENOSPC, /full/, "share") { Numo::Shared.share(Numo::UInt8.zeros(1 << 20)) }
      end
      assert_equal 1, segments_in.size
      assert_equal 4096, array.size
    end
  end

  private

  def attaches
    found = [Shmarray::Array.method(:attach),
             ->(text) { Shmarray::Array.attach(text, readonly: true) }]
    NUMO ? found << Numo::Shared.method(:attach) : found
  end

  def refused(type, words, what)
    error = assert_raises(type, what.inspect) { yield }
    assert_equal type, error.class, what.inspect
    assert_match words, error.message, what.inspect
    error
  end
end
