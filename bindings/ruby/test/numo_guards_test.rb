# frozen_string_literal: true

require_relative "helper"
require_relative "call_everything"

# Every method is called on a writable array: the process lives, and the array's memory stays in
# place.
class NumoGuardsTest < NumoTest
  include CallEverything
  Shared = NUMO && Numo::Shared

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

  # A write through one array is read through the other.
  def check(array, plain, what)
    assert Shared.shared?(array), what.inspect
    [3, 4].each do |number|
      array.fill(number)
      assert_equal number, plain[1, 1], what.inspect
    end
  end
end
