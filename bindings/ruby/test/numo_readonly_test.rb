# frozen_string_literal: true

require_relative "helper"
require_relative "call_everything"

# A read-only array is frozen and its pages are protected: no method changes an element, and the
# process lives.
class NumoReadonlyTest < NumoTest
  include CallEverything
  def test_writes_are_refused_through_the_array_and_its_views
    a = Shared.new(Numo::Int32, [2, 3]).seq
    r = Shared.attach(Shared.handle(a), readonly: true)
    strided = Shared.attach(Shared.handle(a.transpose), readonly: true)
    assert r.frozen? && strided.frozen? && !a.frozen?
    [r, strided, r.view, r.transpose, r[0, true], r[true, [0, 2]], strided[1..2, true],
     r.inplace].each do |array|
      writes = [-> { array.store(1) }, -> { array.fill(1) }, -> { array.seq }, -> { array[0] = 1 },
                -> { array[] = 1 }, -> { array.inplace + 1 },
                -> { array.store_binary("x" * array.byte_size) },
                -> { array.store_binary(("x" * array.byte_size).freeze) }]
      writes.each { |write| assert_raises(RuntimeError, &write) } # FrozenError is one
    end
    assert_raises(FrozenError) { r.reshape!(3, 2) }
    assert_raises(RuntimeError) { r.tril! }
    assert_equal [[[0, 1, 2], [3, 4, 5]], [2, 3]], [a.to_a, r.shape]
    a[0, 0] = 9
    assert_equal [9, 9], [r[0, 0], strided[0, 0]]
  end

  def test_the_handle_of_a_readonly_array_is_that_of_its_segment
    a = Shared.new(Numo::Int32, [2, 3])
    r = Shared.attach(Shared.handle(a), readonly: true)
    assert_equal Shared.handle(a), Shared.handle(r)
    assert_equal Shared.handle(a.transpose), Shared.handle(r.transpose)
  end

  def test_no_method_writes_through
    [Numo::UInt8, Numo::Int32, Numo::SFloat, Numo::DComplex].each do |type|
      a = Shared.new(type, [3, 3]).seq(1)
      handles = [Shared.handle(a), Shared.handle(a.transpose)]
      before = bytes_of(a)
      calls = in_child do
        handles.sum { |handle| call_everything { Shared.attach(handle, readonly: true) } }
      end
      assert_operator calls, :>, 2000
      assert_equal before, bytes_of(a), type
    end
  end
end
