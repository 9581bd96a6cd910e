# frozen_string_literal: true

require_relative "helper"
require_relative "call_everything"

# Every method is called on a writable array: the process lives, and the array's memory stays in
# place.
class NumoGuardsTest < NumoTest
  include CallEverything
  def test_no_method_crashes_or_takes_an_array_out_of_its_segment
    [Numo::UInt8, Numo::Int32, Numo::SFloat, Numo::DComplex].each do |type|
      a = Shared.new(type, [3, 3]).seq(1)
      plain = Shmarray::Array.attach(Shared.handle(a))
      handles = [Shared.handle(a), Shared.handle(a.transpose)]
      calls = in_child do
        after = ->(array, what) { check(array, plain, what) }
        handles.sum { |handle| call_everything(after:) { Shared.attach(handle) } }
      end
      assert_operator calls, :>, 4000
    end
  end

  VIEWS = {
    whole: ->(a) { a }, rows: ->(a) { a[5..-1, true] }, columns: ->(a) { a[true, 3..40] },
    row: ->(a) { a[9, true] }, element: ->(a) { a[3..3, 4..4] }, transposed: ->(a) { a.transpose },
    reversed: ->(a) { a.reverse }, chosen: ->(a) { a[[3, 1, 1], true] }
  }.freeze

  def test_views_of_bits_and_of_objects_come_back_by_marshal_and_from_workers
    numbers = Numo::Int32.new(40, 73).seq
    [Numo::Bit.cast(numbers % 3 > 1), Numo::RObject.cast(numbers)].each do |array|
      VIEWS.each do |name, take|
        view = take.call(array)
        assert_equal view.to_a, Marshal.load(Marshal.dump(view)).to_a, name
        [view, { view: }].each do |result|
          found = Numo::Parallel.map([0], in_processes: 1) { result }.first
          found = found[:view] if found.is_a?(Hash)
          assert_equal [view.class, view.shape, view.to_a], [found.class, found.shape, found.to_a],
                       name
        end
      end
    end
  end

  # A write through one array is read through the other.
  def check(array, plain, what)
    assert Shared.shared?(array), what.inspect
    [3, 4].each do |number|
      array.fill(number)
      assert_equal number, plain[1, 1], what.inspect
    end
  end
end
