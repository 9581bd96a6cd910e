# frozen_string_literal: true

require_relative "helper"

# The texts of errors use words of Ruby and of this library, none of Rust or of a parser.
class ErrorMessageTest < SharedMemoryTest
  FOREIGN = /\b[iuf](8|16|32|64|128|size)\b|EOF|\bline\ \d+\ column|invalid\ digit|expected|
             invalid\ (type|value)|serde|Some\(|None\b|`/x

  def handle
    @handle ||= (@array = Shmarray::Array.create(:int32, 3)).handle
  end

  def refused(what)
    types = [ArgumentError, TypeError, RangeError, IndexError, Errno::ENOENT,
             Shmarray::StaleHandleError]
    error = assert_raises(*types, what.inspect) { yield }
    refute_match FOREIGN, error.message.gsub(what.inspect, ""), what.inspect
    error.message
  end

  def refused_handle(text)
    refused(text) { Shmarray::Array.attach(text) }
  end

  def test_a_handle_that_is_cut_anywhere_is_refused_in_words
    (1...handle.size).each do |count|
      assert_equal "invalid handle: handle: the text ends too early, after character #{count}",
                   refused_handle(handle[0, count])
    end
  end

  # Replaces each letter: most results are refused, some are another handle.
  def test_a_handle_with_any_letter_changed_says_nothing_foreign
    handle.size.times do |at|
      ["x", "\"", "-", "9", "]", "ä"].each do |letter|
        text = handle.dup.tap { |changed| changed[at] = letter }
        refused_handle(text) unless attaches?(text)
      end
    end
  end

  def attaches?(text)
    Shmarray::Array.attach(text)
  rescue StandardError
    false
  end

  WRONG = ["x", '"x"', "1e3", "-1", "null", "{}", "[null]", "[0.5]", "true", "18446744073709551616",
           '"\ud800"', "5", "[]", '{"descr":[],"itemsize":"x"}',
                    '{"descr":[1e999],"itemsize":4}', '{"descr":5,"itemsize":4}', '{"descr":[]}',
                    '"<i5"'].freeze

  def test_a_field_of_a_wrong_kind_is_named
    JSON.parse(handle).each do |field, value|
      WRONG.each do |wrong|
        text = handle.sub("\"#{field}\":#{JSON.generate(value)}", "\"#{field}\":#{wrong}")
        # There are as many strides as dimensions.
        named = field == "shape" ? /shape|strides/ : /\b#{field}\b|stale/
        assert_match(named, refused_handle(text), text) unless attaches?(text)
      end
    end
  end

  def test_a_field_that_is_missing_doubled_or_unknown_is_named
    assert_equal "invalid handle: offset: missing field",
                 refused_handle(handle.sub('"offset":0,', ""))
    assert_equal "invalid handle: offset: duplicate field",
                 refused_handle(handle.sub('"offset":0', '"offset":0,"offset":0'))
    assert_equal "invalid handle: colour: unknown field",
                 refused_handle(handle.sub('"offset":0', '"offset":0,"colour":0'))
    at = handle.index('"offset":') + 10
    assert_equal "invalid handle: offset: it is not JSON at character #{at}",
                 refused_handle(handle.sub('"offset":0', '"offset":x'))
    assert_match(/handle: trailing text at character #{handle.size + 1}\z/,
                 refused_handle("#{handle}x"))
  end

  def test_numbers_that_do_not_fit_are_said_with_their_dtype
    { int8: 128, uint16: -1, int32: 2**40, int64: 2**63, uint64: 2**64,
      uint8: 1e300 }.each do |dtype, number|
      a = Shmarray::Array.create(dtype, 1)
      [-> { a[0] = number }, -> { a.fill(number) }, -> { a[nil] = [number] },
       -> { a.map! { number } }].each do |write|
        assert_match(/ does not fit #{dtype}, which goes from -?\d+ to \d+\z/,
                     refused(dtype, &write))
      end
    end
  end

  def test_arguments_that_cannot_be_are_refused_in_words
    a = Shmarray::Array.create(:int32, 3)
    far = 2**70
    here, = Shmarray::Pipe.pair
    [-> { a[far] }, -> { a[far] = 1 }, -> { a.view(far, 4) }, -> { a.view(3, far) },
     -> { a.view(3, 4, far) }, -> { a.view(3, 4, "x") },
     -> { a.reshape(far) }, -> { a.sum(axis: far) }, -> { a.bincount(minlength: far) },
     -> { Shmarray::Pipe.from_fd(2**40) },
     -> { Shmarray::Pipe.from_fd(far) }, -> { here.send_arrays("x", [far]) },
     -> { Shmarray.unlink(3) }, -> { Shmarray.discard("{") },
     *[{ mode: far }, { mode: -1 }, { mode: "x" }, { mode: 2**40 }, { order: 1 }, { name: 1 },
       { colour: 1 }].map do |keywords|
       -> { Shmarray::Array.create(:int8, 1, **keywords) }
     end].each_with_index { |call, at| refused(at, &call) }
    assert_equal [0, 0, 0], a[0..far].to_a
    assert_equal [], a[far..].to_a
  end

  SUGGESTED = {
    int: :int32, integer: :int32, float: :float64, double: :float64, byte: :uint8, boolean: :bool,
    complex: :complex128, single: :float32,
    long: :int64, short: :int16, Int32: :int32, INT_32: :int32, int31: :int32, unit8: :uint8,
    flaot32: :float32, complex_64: :complex64,
    "int32 " => :int32, "i4" => :int32, "<i" => :int32, "u1" => :uint8, "f8" => :float64,
    "c16" => :complex128, "=f4" => :float32, "d" => :float64
  }.freeze

  def test_a_dtype_that_is_none_suggests_the_one_that_was_meant
    SUGGESTED.each do |dtype, meant|
      assert_match(/; did you mean :#{meant}\?\z/,
                   refused(dtype) { Shmarray::Array.create(dtype, 3) })
    end
    [:object, "", :x, "|O8", nil, 5].each do |dtype|
      message = refused(dtype) { Shmarray::Array.create(dtype, 3) }
      refute_match(/did you mean/, message)
    end
  end

  def test_a_class_that_is_no_dtype_suggests_the_dtype_of_its_elements
    skip "no Numo gem is installed" unless NUMO
    message = refused(Numo::SFloat) { Shmarray::Array.create(Numo::SFloat, 3) }
    assert_match(/mean :float32\?/, message)
  end

  def test_a_structured_dtype_that_is_none_is_refused_by_its_member
    { "{" => /ends too early, after character 1/,
      '{"descr":[["a","<i4"]]}' => /itemsize: missing field/,
      '{"descr":[],"itemsize":-1}' => /itemsize: -1 is not a whole number/,
      '{"descr":[,"itemsize":4}' => /descr: it is not JSON at character 11/,
      '{"descr":[],"itemsize":4,"more":1}' => /more: unknown field/ }.each do |text, words|
      assert_match words, refused(text) { Shmarray::Array.create(text, 3) }
    end
  end
end
