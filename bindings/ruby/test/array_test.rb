# frozen_string_literal: true

require_relative "helper"

class ArrayTest < SharedMemoryTest
  # Values of each dtype that a Ruby object represents exactly.
  VALUES = {
    "|b1" => [true, false, true], "|i1" => [-128, 0, 127], "<i2" => [-32_768, 1, 32_767],
    "<i4" => [-2**31, 1, 2**31 - 1], "<i8" => [-2**63, 1, 2**63 - 1], "|u1" => [0, 1, 255],
    "<u2" => [0, 1, 65_535], "<u4" => [0, 1, 2**32 - 1], "<u8" => [0, 1, 2**64 - 1],
    "<f2" => [-3.25, 0.5, 65_504.0],
    "<f4" => [-3.25, 0.5, 1e30.to_f.then { |x| [x].pack("e").unpack1("e") }],
    "<f8" => [-3.25, 0.1, Float::MAX],
    "<c8" => [Complex(1.5, -2.5), Complex(0.0, 1.0), Complex(3.0, 0.0)],
    "<c16" => [Complex(0.1, -0.2), Complex(0.0, 1.0), Complex(3.0, 0.0)],
    "bfloat16" => [-3.25, 0.5, 2.0**127],
    "complex32" => [Complex(1.5, -2.5), Complex(0.0, 1.0), Complex(65_504.0, 0.0)],
    "bcomplex32" => [Complex(1.5, -2.5), Complex(0.0, 1.0), Complex(2.0**127, 0.0)],
    "float8_e3m4" => [-3.25, 0.5, 15.5], "float8_e4m3" => [-3.25, 0.5, 240.0],
    "float8_e4m3fn" => [-3.25, 0.5, 448.0], "float8_e4m3fnuz" => [-3.25, 0.5, 240.0],
    "float8_e4m3b11fnuz" => [-3.25, 0.5, 30.0], "float8_e5m2" => [-3.5, 0.5, 57_344.0],
    "float8_e5m2fnuz" => [-3.5, 0.5, 57_344.0], "float8_e8m0fnu" => [0.25, 1.0, 2.0**127],
    "float8_e5m3fnu" => [3.25, 0.5, 114_688.0],
    "float6_e2m3fn" => [-3.25, 0.5, 7.5], "float6_e3m2fn" => [-3.5, 0.5, 28.0],
    "float4_e2m1fn" => [-3.0, 0.5, 6.0],
    "int1" => [-1, 0, -1], "int2" => [-2, 0, 1], "int4" => [-8, 1, 7],
    "uint1" => [0, 1, 0], "uint2" => [0, 1, 3], "uint4" => [0, 1, 15]
  }.freeze

  def array(dtype = :int32, shape = [2, 3, 4])
    a = Shmarray::Array.create(dtype, shape)
    a[] = (0...a.size).to_a if a.ndim == 1
    a[nil] = nested(shape) if a.ndim > 1
    a
  end

  def nested(shape, count = [-1])
    shape.empty? ? count[0] += 1 : ::Array.new(shape[0]) { nested(shape[1..], count) }
  end

  def test_a_new_array_is_zeros
    a = Shmarray::Array.new(:float64, [2, 3])
    assert_equal [[0.0] * 3] * 2, a.to_a
    assert_equal ["<f8", [2, 3], [24, 8], 6, 2, false],
                 [a.dtype, a.shape, a.strides, a.size, a.ndim, a.readonly?]
  end

  def test_every_dtype_keeps_its_values_in_another_process
    assert_equal Shmarray::DTYPES.sort, VALUES.keys.sort
    arrays = VALUES.map do |dtype, values|
      Shmarray::Array.create(dtype, 3).tap do |a|
        values.each_with_index { |value, at| a[at] = value }
      end
    end
    handles = arrays.map(&:handle)
    assert_equal VALUES.values,
                 in_child { handles.map { |handle| Shmarray::Array.attach(handle).to_a } }
    output = ruby_says(<<~RUBY, *handles)
      require "shmarray"
      print Marshal.dump(ARGV.map { |handle| Shmarray::Array.attach(handle).to_a })
    RUBY
    assert_equal VALUES.values, Marshal.load(output.b)
  end

  def test_a_dtype_has_a_name_and_a_type_string
    names = %i[int32 bool float16 complex64 uint8].map do |name|
      Shmarray::Array.create(name, 1).dtype
    end
    assert_equal ["<i4", "|b1", "<f2", "<c8", "|u1"], names
    assert_equal "<i4", Shmarray::Array.create("int32", 1).dtype
    assert_equal "bfloat16", Shmarray::Array.create(:bfloat16, 1).dtype
  end

  def test_a_dtype_that_the_table_lacks_has_its_name_and_its_bytes
    a = Shmarray::Array.create('{"descr":"float9_e4m4","itemsize":2}', 3)
    a[1] = "ab"
    assert_equal ["\0\0".b, "ab".b, "\0\0".b], Shmarray::Array.attach(a.handle).to_a
    error = assert_raises(TypeError) { a.sum }
    assert_match(/float9_e4m4/, error.message)
  end

  def test_another_process_writes_what_this_one_reads
    a = Shmarray::Array.create(:int32, [2, 3])
    handle = a.handle
    in_child { Shmarray::Array.attach(handle)[1, 2] = 5 }
    assert_equal [[0, 0, 0], [0, 0, 5]], a.to_a
    ruby_says("require 'shmarray'; Shmarray::Array.attach(ARGV[0])[0, 0] = 7", handle)
    assert_equal [[7, 0, 0], [0, 0, 5]], a.to_a
  end

  # Applies the same index to nested Arrays and to shared ones.
  def test_an_index_chooses_what_it_chooses_in_an_array
    a = array(:int32, [7])
    list = a.to_a
    indices = [2, -1, 1..3, 1...3, 2.., ..3, -3..-1, 0..-1, 5..2, 7.., (0..) % 2, (1..5) % 3,
               (-1..0) % -1, (5..1) % -2, (0..) % 3]
    indices.each do |index|
      found = a[index]
      expected = plain(list, index)
      assert_equal expected, found.is_a?(Shmarray::Array) ? found.to_a : found, index.inspect
    end
    assert_equal list, a[nil].to_a
    assert_equal list, a[true].to_a
    assert_equal [], a[9..20].to_a
  end

  def plain(list, index)
    return list[index] unless index.is_a?(Enumerator::ArithmeticSequence) && index.step.negative?

    first, last = [index.begin, index.end].map { |at| at.negative? ? at + list.size : at }
    first.step(last, index.step).map { |at| list[at] }
  end

  def test_views_are_the_same_memory
    a = array
    a[0, (0..) % 2, -1][1] = 99
    assert_equal 99, a[0, 2, 3]
    a[1, true, 1..2] = -1
    assert_equal [[12, -1, -1, 15], [16, -1, -1, 19], [20, -1, -1, 23]], a[1].to_a
    a.transpose[3, 0, 0] = 55
    assert_equal 55, a[0, 0, 3]
    assert_equal a.handle, a.transpose.transpose.handle
  end

  def test_rows_and_other_arrays_can_be_assigned
    a = array(:int32, [2, 3])
    a[0] = [7, 8, 9]
    a[1] = a[0, (-1..0) % -1]
    assert_equal [[7, 8, 9], [9, 8, 7]], a.to_a
    a[true, 0..1] = a[true, 1..2] # the two share elements
    assert_equal [[8, 9, 9], [8, 7, 7]], a.to_a
    assert_raises(ArgumentError) { a[0] = [1, 2] }
    assert_raises(ArgumentError) { a[0] = [[1, 2, 3]] }
    assert_raises(ArgumentError) { a[true] = a.transpose }
    assert_raises(TypeError) { a[true] = array(:int64, [2, 3]) }
    assert_equal [[8, 9, 9], [8, 7, 7]], a.to_a
  end

  def test_an_array_without_dimensions_has_one_element
    a = Shmarray::Array.create(:int16, [])
    a[] = 5
    assert_equal [5, 5, [5], [], 1], [a[], a.to_a, a.each.to_a, a.shape, a.size]
  end

  def test_an_array_without_elements_has_a_handle_too
    a = Shmarray::Array.create(:int16, [0, 3])
    b = Shmarray::Array.attach(a.handle)
    assert_equal [[], [0, 3], 0, "", []], [b.to_a, b.shape, b.size, b.to_bytes, b.each.to_a]
  end

  def test_each_goes_through_the_elements_in_c_order
    a = array(:int32, [2, 3]).transpose
    assert_equal [0, 3, 1, 4, 2, 5], a.each.to_a
    assert_equal [15, 5], [a.sum, a.max]
    assert_same a, a.each { |_| nil }
  end

  def test_text_shows_the_elements
    a = array(:int8, [2, 2])
    assert_equal "[[0, 1], [2, 3]]", a.to_s
    assert_equal "#<Shmarray::Array |i1 [2, 2] [[0, 1], [2, 3]]>", a.inspect
    assert_equal "#<Shmarray::Array |i1 [200] …>", Shmarray::Array.create(:int8, 200).inspect
  end

  def test_bytes_come_out_in_c_order_and_are_counted
    a = Shmarray::Array.create(:int32, [2, 3], order: :F)
    a[nil] = [[0, 1, 2], [3, 4, 5]]
    assert_equal [4, 8], a.strides
    before = Shmarray.copied_bytes
    assert_equal (0..5).to_a.pack("l<*"), a.to_bytes
    assert_equal 24, Shmarray.copied_bytes - before
    a.handle
    Shmarray::Array.attach(a.handle)[0]
    assert_equal 24, Shmarray.copied_bytes - before
  end

  def test_other_threads_run_while_a_large_array_is_copied
    a = Shmarray::Array.create(:uint8, 64 << 20)
    a[-1] = 7
    threads = ::Array.new(3) { Thread.new { a.to_bytes.getbyte(-1) } }
    assert_equal [7, 7, 7], threads.map(&:value)
  end

  def test_a_view_is_chosen_by_shape_strides_and_offset
    a = array(:int32, [2, 3])
    assert_equal [[5, 4], [2, 1]], a.view([2, 2], [-12, -4], 20).to_a
    assert_equal [0, 0, 0], a.view(3, 0).to_a
    assert_raises(ArgumentError) { a.view([2, 3], [12, 4], 4) }
    assert_raises(ArgumentError) { a[0].view([2, 3], [12, 4]) }
    assert_raises(ArgumentError) { a.view([2], [4, 4]) }
  end

  def test_a_readonly_array_refuses_writes_and_so_do_its_views
    a = array(:int32, [2, 3])
    r = Shmarray::Array.attach(a.handle, readonly: true)
    assert r.readonly? && r[0].readonly? && !a.readonly?
    [-> { r[0, 0] = 1 }, -> { r[0] = 1 }, -> { r[0] = [1, 2, 3] }, -> { r[true] = a },
     -> { r.transpose[0, 0] = 1 }].each do |write|
      error = assert_raises(FrozenError, &write)
      assert_equal "the array is read-only", error.message
    end
    a.freeze
    assert_raises(FrozenError) { a[0, 0] = 1 }
    assert_equal [[0, 1, 2], [3, 4, 5]], r.to_a
  end

  def test_dtypes_outside_the_table_are_bytes
    a = Shmarray::Array.create(">i4", 2)
    a[0] = [5].pack("N")
    assert_equal ["\0\0\0\5".b, "\0\0\0\0".b], Shmarray::Array.attach(a.handle).to_a
    assert_equal Encoding::BINARY, a[0].encoding
    assert_raises(ArgumentError) { a[0] = "abc" }
    assert_raises(ArgumentError) { a[0] = 5 }
    s = Shmarray::Array.create('{"descr": [["a", "<i4"], ["b", "|u1"]], "itemsize": 5}', 3)
    assert_equal [5], s.strides
    assert_equal "\0\0\0\0\0".b, Shmarray::Array.attach(s.handle)[2]
  end

  def test_values_that_do_not_fit_are_refused
    { int8: [128, -129], uint8: [256, -1], int64: [2**63],
      uint64: [2**64, -1] }.each do |dtype, values|
      a = Shmarray::Array.create(dtype, 1)
      values.each { |value| assert_raises(RangeError, "#{dtype} #{value}") { a[0] = value } }
      assert_equal [0], a.to_a
    end
    { int8: "1", float64: "1", bool: 2, complex64: "i", float16: nil }.each do |dtype, value|
      assert_raises(TypeError, dtype.to_s) { Shmarray::Array.create(dtype, 1)[0] = value }
    end
  end

  def test_an_index_that_is_not_there_is_an_index_error
    a = array(:int32, [2, 3])
    [[2, 0], [0, 3], [-3, 0], [0, -4], [5], [0, 0, 0], [2**40, 0]].each do |index|
      assert_raises(IndexError, index.inspect) { a[*index] }
      assert_raises(IndexError, index.inspect) { a[*index] = 1 }
    end
    ["0", 0.5, :a, [0], false].each { |index| assert_raises(TypeError, index.inspect) { a[index] } }
    assert_raises(ArgumentError) { a[(0..).step(0)] }
  end

  def test_a_name_finds_an_array_and_goes_with_it
    a = Shmarray::Array.create(:int8, 3, name: "camera-1")
    assert_equal a.handle, Shmarray::Array.attach("camera-1").handle
    assert_equal ["camera-1"], Shmarray.segments.map { |facts| facts[:name] }
    assert_raises(Errno::EEXIST) { Shmarray::Array.create(:int8, 3, name: "camera-1") }
    assert_nil Shmarray.unlink("camera-1")
    assert_raises(Errno::ENOENT) { Shmarray::Array.attach("camera-1") }
    assert_equal a.handle, Shmarray::Array.attach(a.handle).handle
  end

  # The members of shma_segment_info, in its order. C counts shapes and holders by themselves.
  FACTS = %i[segment name kind persists segment_bytes dtype shape holders tickets creator_pid
             created_ns].freeze

  def test_segments_are_told_with_what_they_hold
    a = Shmarray::Array.create(:float32, [2, 3], mode: 0o640)
    facts = listed_arrays.fetch(0)
    assert_equal FACTS, facts.keys
    assert_equal JSON.parse(a.handle)["segment"], facts[:segment]
    assert_equal [:array, nil, "<f4", [2, 3], Process.pid],
                 facts.values_at(:kind, :name, :dtype, :shape, :creator_pid)
    assert_operator Time.at(0, facts[:created_ns], :nsec), :<=, Time.now
    assert_operator facts[:segment_bytes], :>=, 24
    assert_equal 0o640,
                 File.stat(File.join(ENV.fetch("SHMARRAY_DIR"), segments_in.first)).mode & 0o777
  end
end
