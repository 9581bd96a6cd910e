# frozen_string_literal: true

require_relative "helper"

# Sums, means, extremes and counts, compared with plain loops over nested Arrays.
class ReductionsTest < SharedMemoryTest
  # Numbers that every dtype of its kind can represent.
  NUMBERS = {
    /b/ => ->(at) { (at % 3).zero? }, /i/ => ->(at) { at * 37 % 101 - 50 },
    /u/ => ->(at) { at * 37 % 101 },
    /f/ => ->(at) { (at * 37 % 101 - 50) / 8.0 },
    /c/ => ->(at) { Complex(at * 37 % 101 - 50, at % 7) / 8.0 }
  }.freeze
  # The dtypes without names of their own, which have few numbers.
  TYPE_STRINGS = Shmarray::DTYPES.grep(/\A[<|]/).freeze
  SHAPE = [3, 4, 5].freeze
  # The dtype itself, unless the table has another.
  SUMS = { /b|i/ => "<i8", /u/ => "<u8" }.freeze
  MEANS = { /c/ => "<c16", // => "<f8" }.freeze
  # Views of an array of that shape.
  VIEWS = {
    "all" => ->(a) { a }, "transposed" => ->(a) { a.transpose },
    "backwards" => ->(a) { a[(-1..0) % -1, true, (-1..0) % -2] },
    "a part" => ->(a) { a[1..2, 1...3, 1..] }, "a plane" => ->(a) { a[true, 2] },
    "an element" => ->(a) { a[1..1, 1..1, 1..1] },
    "one row again and again" => ->(a) { a.view([4, 5], [0, a.strides.last], 0) }
  }.freeze

  def array(dtype, order: :C)
    number = for_dtype(NUMBERS, dtype)
    at = -1
    Shmarray::Array.create(dtype, SHAPE, order: order).tap do |a|
      a[nil] = ::Array.new(3) { ::Array.new(4) { ::Array.new(5) { number.call(at += 1) } } }
    end
  end

  def for_dtype(table, dtype)
    table.find { |kind, _| kind.match?(dtype) }&.last
  end

  # The elements as numbers.
  def numbers(array)
    [array.to_a].flatten.map { |element| number(element) }
  end

  def number(element)
    { true => 1, false => 0 }.fetch(element, element)
  end

  # The elements of each result: nested by the axis that stays.
  def along(nested, axis)
    return nested if axis == 1

    nested.transpose
  end

  def test_elements_of_dtypes_by_name_are_reduced_as_numbers
    a = Shmarray::Array.create(:float8_e4m3fn, 4)
    a[nil] = [1.5, -2.0, 0.25, 448.0]
    assert_equal [447.75, -2.0, 448.0, 111.9375], [a.sum, a.min, a.max, a.mean]
    b = Shmarray::Array.create(:int4, 4)
    b[nil] = [7, 7, -8, 0]
    assert_equal [6, -8, 7, 1.5], [b.sum, b.min, b.max, b.mean]
    c = Shmarray::Array.create(:uint4, 3)
    c[nil] = [2, 0, 2]
    assert_equal [1, 0, 2], c.bincount.to_a
  end

  def each_view
    TYPE_STRINGS.product(%i[C F], VIEWS.to_a) do |dtype, order, (name, view)|
      yield view.call(array(dtype, order: order)), "#{dtype} #{order} #{name}"
    end
  end

  def test_sums_and_means_of_all_elements_are_those_of_a_loop
    each_view do |a, name|
      expected = numbers(a).sum
      assert_equal expected, a.sum, name
      assert_equal expected / a.size.to_f, a.mean, name
      assert_kind_of expected.class, a.sum, name
    end
  end

  def test_extremes_of_all_elements_are_those_of_a_loop
    each_view do |a, name|
      if a.dtype.include?("c")
        error = assert_raises(TypeError) { a.min }
        assert_match(/complex\d+, not one of numbers that have an order, which min needs/,
                     error.message)
        assert_raises(TypeError) { a.max }
      else
        assert_equal numbers(a).minmax, a.minmax.map { |element| number(element) }, name
        assert_equal a.to_a.flatten.max_by { |element| number(element) }, a.max, name
      end
    end
  end

  def test_one_axis_is_reduced_in_a_shared_array
    each_view do |a, name|
      next unless a.ndim == 2

      [0, 1, -1].each do |axis|
        rows = along(a.to_a, axis.abs).map { |row| row.map { |element| number(element) } }
        sums = a.sum(axis: axis)
        assert_equal [rows.map(&:sum), for_dtype(SUMS, a.dtype) || a.dtype],
                     [sums.to_a, sums.dtype], name
        means = a.mean(axis: axis)
        assert_equal [rows.map { |row| row.sum / row.size.to_f }, for_dtype(MEANS, a.dtype)],
                     [means.to_a, means.dtype], name
        next if a.dtype.include?("c")

        assert_equal rows.map(&:min), numbers(a.min(axis: axis)), name
        assert_equal [rows.map(&:max), a.dtype],
                     [numbers(a.max(axis: axis)), a.max(axis: axis).dtype], name
      end
    end
  end

  def test_several_axes_are_reduced_at_once
    a = array("<i4")
    plane = a.to_a.map { |rows| rows.flatten.sum }
    assert_equal plane, a.sum(axis: [1, 2]).to_a
    assert_equal plane, a.sum(axis: [-1, 1]).to_a
    assert_equal a.to_a.transpose.map { |rows| rows.flatten.max }, a.max(axis: [0, 2]).to_a
    assert_equal a.sum, a.sum(axis: [0, 1, 2]).to_a
    assert_equal a.to_a, a.sum(axis: []).to_a
  end

  def test_counts_are_tallies
    each_view do |a, name|
      if a.dtype.match?(/[fc]/)
        assert_match(/not one of integers, which bincount needs/,
                     assert_raises(TypeError, name) { a.bincount }.message)
      elsif numbers(a).min.negative?
        assert_match(/-\d+ is negative, and bincount counts/,
                     assert_raises(ArgumentError, name) { a.bincount }.message)
      else
        tally = numbers(a).tally
        assert_equal ::Array.new(tally.keys.max + 1) { |n| tally.fetch(n, 0) }, a.bincount.to_a,
                     name
        assert_equal ["<u8", [200]],
                     a.bincount(minlength: 200).then { |counts| [counts.dtype, counts.shape] }
      end
    end
  end

  def test_counts_along_an_axis_are_its_last_dimension
    a = array("|u1")
    counts = a.bincount(axis: [0, 1], minlength: 110)
    assert_equal [5, 110], counts.shape
    tallies = (0...5).map { |k| a[true, true, k].to_a.flatten.tally }
    expected = tallies.map { |tally| ::Array.new(110) { |n| tally.fetch(n, 0) } }
    assert_equal expected, counts.to_a
    assert_equal [3, 5, a.max + 1], a.bincount(axis: 1).shape
  end

  def test_integers_add_up_to_any_size
    a = Shmarray::Array.create(:uint64, 3)
    a[nil] = 2**64 - 1
    assert_equal 3 * (2**64 - 1), a.sum
    assert_equal (2**64 - 1).to_f, a.mean
    assert_refused(ArgumentError, /does not fit uint64; without an axis it is exact/) do
      a.sum(axis: 0)
    end
    b = Shmarray::Array.create(:int64, [2, 2])
    b[0] = -2**63
    assert_equal [-2**64, [[-2**63, -2**63], [0, 0]]], [b.sum, b.sum(axis: []).to_a]
  end

  def test_a_nan_makes_the_result_nan
    a = Shmarray::Array.create(:float32, 100)
    a[nil] = 1
    a[57] = Float::NAN
    assert [a.sum, a.mean, a.min, a.max, *a.minmax].all?(&:nan?)
    assert_equal 1.0, a[0..50].max
    a[57] = -Float::INFINITY
    assert_equal [-Float::INFINITY, -Float::INFINITY, 1.0], [a.sum, a.min, a.max]
  end

  def test_no_elements_have_a_sum_but_no_mean_and_no_extremes
    a = Shmarray::Array.create(:float64, [0, 3])
    assert_equal [0.0, [0.0, 0.0, 0.0], []], [a.sum, a.sum(axis: 0).to_a, a.mean(axis: 1).to_a]
    %i[mean min max minmax].each do |name|
      assert_refused(ArgumentError, /no elements to take the (mean|min|max) of/) do
        a.public_send(name)
      end
    end
    empty = Shmarray::Array.create(:int8, 0)
    assert_equal [[], [0, 0]], [empty.bincount.to_a, empty.bincount(minlength: 2).to_a]
  end

  def test_a_readonly_or_frozen_array_is_reduced
    a = array("<f8")
    fixed = Shmarray::Array.attach(a.handle, readonly: true).freeze
    assert_equal [a.sum, a.mean, a.minmax, a.sum(axis: 1).to_a],
                 [fixed.sum, fixed.mean, fixed.minmax, fixed.sum(axis: 1).to_a]
    refute fixed.sum(axis: 0).readonly?
  end

  def test_with_a_block_and_arguments_they_are_enumerables
    a = array("<i2")
    list = a.to_a.flatten
    assert_equal list.sum { |n| n * 2 }, a.sum { |n| n * 2 }
    assert_equal list.sum(100), a.sum(100)
    assert_equal [list.min(3), list.max(2)], [a.min(3), a.max(2)]
    assert_equal list.min_by { |n| n % 10 } % 10, a.min { |m, n| m % 10 <=> n % 10 } % 10
    assert_equal list.minmax { |m, n| n <=> m }, a.minmax { |m, n| n <=> m }
    [-> { a.sum(1, axis: 0) }, -> { a.max(2, axis: 0) }, -> { a.min(axis: 0) { 1 } },
     -> { a.minmax(axis: 0) { 1 } }].each do |mixed|
      assert_match(/axis: excludes a block/, assert_raises(ArgumentError, &mixed).message)
    end
  end

  def test_arguments_and_dtypes_that_cannot_be_are_refused
    a = array("<i4")
    { 3 => ArgumentError, -4 => ArgumentError, [0, 0] => ArgumentError, [0, -3] => ArgumentError,
      2**70 => ArgumentError,
      0.5 => TypeError, "0" => TypeError, [nil] => TypeError,
      true => TypeError }.each do |axis, error|
      %i[sum mean min max minmax bincount].each do |name|
        raised = assert_raises(error, "#{name} #{axis}") { a.public_send(name, axis: axis) }
        assert_match(/invalid axis/, raised.message)
      end
    end
    [-1, 2**70, 2**62].each do |length|
      assert_raises(ArgumentError) { array("|u1").bincount(minlength: length) }
    end
    [nil, 0.5, "1"].each do |length|
      assert_raises(TypeError) { array("|u1").bincount(minlength: length) }
    end
    b = Shmarray::Array.create(">i4", 2)
    %i[sum mean min max bincount].each do |name|
      error = assert_raises(TypeError) { b.public_send(name) }
      assert_match(/>i4, not one of numbers/, error.message)
    end
  end

  def test_results_are_arrays_of_their_own_that_others_attach
    a = array("<i4")
    sums = a.sum(axis: 0)
    a[nil] = 0
    handle = sums.handle
    assert_equal sums.to_a, in_child { Shmarray::Array.attach(handle).to_a }
    before = Shmarray.copied_bytes
    a.sum
    a.max(axis: 1)
    assert_equal before, Shmarray.copied_bytes
  end

  # One element repeated: so often that it takes seconds, and ends by itself if nothing can stop it.
  def long
    Shmarray::Array.create(:uint8, 1).view(2**37, 0)
  end

  def test_other_threads_run_meanwhile_and_can_end_it
    a = long
    worker = Thread.new { a.sum }.tap { |thread| thread.report_on_exception = false }
    Thread.pass until worker.stop? || !worker.alive? # without the lock
    worker.raise(ZeroDivisionError)
    assert_raises(ZeroDivisionError) { worker.value }
    killed = Thread.new { a.max }
    Thread.pass until killed.stop? || !killed.alive?
    assert_nil killed.kill.value
  end

  def test_a_signals_handler_runs_in_the_middle_and_an_interrupt_ends_it
    output = ruby_says(<<~RUBY)
      require "shmarray"
      a = Shmarray::Array.create(:uint8, 1).view(2**37, 0)
      trap(:USR1) { print "handled "; Process.kill(:INT, Process.pid) }
      begin
        fork { Process.kill(:USR1, Process.ppid) }
        a.min
        print "went on to its end"
      rescue Interrupt
        print "interrupted"
      end
    RUBY
    assert_equal "handled interrupted", output
  end

  def test_a_thread_that_is_protected_goes_on_to_its_end
    a = Shmarray::Array.create(:uint8, 1).view(2**28, 0)
    inside = Queue.new
    worker = Thread.new do
      Thread.handle_interrupt(ZeroDivisionError => :never) do
        inside << true
        Thread.current[:sum] = a.sum
      end
    end
    worker.report_on_exception = false
    worker.raise(ZeroDivisionError) if inside.pop
    assert_raises(ZeroDivisionError) { worker.value }
    assert_equal 0, worker[:sum]
  end

  def test_a_ractor_reduces_what_is_frozen
    Warning[:experimental] = false
    a = array("<i4")
    fixed = Shmarray::Array.attach(a.handle, readonly: true).freeze
    assert_equal [a.sum, a.max], Ractor.new(fixed) { |array| [array.sum, array.max] }.take
  end

  def test_numo_says_the_same
    skip "no Numo gem is installed" unless NUMO
    { Numo::Int16 => "<i2", Numo::UInt8 => "|u1", Numo::SFloat => "<f4",
      Numo::DFloat => "<f8" }.each do |type, dtype|
      a = array(dtype)
      n = Numo::Shared.attach(a.handle)
      assert_kind_of type, n
      assert_equal [n.sum, n.min, n.max], [a.sum, a.min, a.max]
      assert_equal n.sum(axis: [0, 2]).to_a, a.sum(axis: [0, 2]).to_a
      assert_equal n.max(axis: 1).to_a, a.max(axis: 1).to_a
      assert_equal n.cast_to(Numo::DFloat).mean(axis: 2).to_a, a.mean(axis: 2).to_a
    end
    a = array("|u1")
    assert_equal Numo::Shared.attach(a.handle).bincount.to_a, a.bincount(axis: -1).to_a
    assert_equal Numo::Shared.attach(a.sum(axis: 0).handle).to_a, a.sum(axis: 0).to_a
  end
end
