# frozen_string_literal: true

require_relative "helper"

# The holders of a segment, and its end: without Numo.
class LifetimeTest < SharedMemoryTest
  def test_a_segment_goes_with_its_last_view
    away do
      view = away { Shmarray::Array.create(:int32, [10, 3])[4] }
      collect
      assert_equal [1, [0, 0, 0]], [segments_in.size, view.to_a]
    end
    collect
    assert_empty segments_in
  end

  def test_the_end_of_an_interpreter_with_live_arrays_is_quiet
    output = ruby_says(<<~RUBY)
      require "shmarray"
      $array = Shmarray::Array.create(:int32, [100, 100])
      VIEW = $array.transpose
      at_exit { VIEW[0, 0] = 5 }
      ObjectSpace.define_finalizer(Object.new, proc { VIEW[0, 0] })
      Thread.new { loop { $array.to_bytes } }
    RUBY
    assert_empty output
    assert_empty segments_in
  end

  def test_dead_arrays_do_not_pile_up
    made = 0
    most = 0
    200.times do
      Shmarray::Array.create(:uint8, 4 << 20)
      made += 1
      most = [most, segments_in.size].max
    end
    assert_operator most, :<, made / 4, "the collector does not know how much the arrays hold"
  end

  def test_under_gc_stress_nothing_is_lost
    a = Shmarray::Array.create(:int32, [4, 4])
    a[nil] = (0...16).each_slice(4).to_a
    handle = a.handle
    GC.stress = true
    3.times do |at|
      b = Shmarray::Array.attach(handle)[(0..) % 2].transpose
      assert_equal [[0, 8], [1, 9], [2, 10], [3, 11]], b.to_a, at
      assert_equal b.handle, b.transpose.transpose.handle
      b.inspect
      assert_raises(IndexError) { b[9, 9] }
    end
  ensure
    GC.stress = false
  end
end
