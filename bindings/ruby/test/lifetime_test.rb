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

  def test_an_array_outlives_its_maker
    handle, reader, writer = handed_over { Shmarray::Array.create(:int32, 3).tap { |a| a[1] = 5 } }
    b = Shmarray::Array.attach(handle)
    writer.puts "go"
    assert_nil reader.gets # the maker has ended
    Process.wait
    assert_equal [0, 5, 0], b.to_a
    assert_equal 1, segments_in.size
  end

  def test_a_killed_maker_leaves_nothing
    handle, = handed_over { Shmarray::Array.create(:int32, 3, name: "killed") }
    pid = Shmarray.segments.fetch(0)[:creator_pid]
    Process.kill(:KILL, pid)
    Process.wait(pid)
    assert_equal 2, segments_in.size
    assert_equal [[:remains, [], 0]],
                 Shmarray.segments.map { |facts| facts.values_at(:kind, :holders, :tickets) }
    assert_equal 1, Shmarray.sweep[:segments]
    assert_empty segments_in
    assert_raises(Errno::ENOENT) { Shmarray::Array.attach(handle) }
  end

  def test_a_persistent_array_stays_until_it_is_unlinked
    in_child do
      Shmarray::Array.create(:int32, 3, name: "kept", persist: true).then { |a| a[2] = 9 }
    end
    assert_equal 0, Shmarray.sweep[:segments]
    assert_equal [0, 0, 9], Shmarray::Array.attach("kept").to_a
    Shmarray.unlink("kept")
    assert_raises(Errno::ENOENT) { Shmarray.unlink("kept") }
  end

  def test_a_forked_childs_end_takes_nothing_from_its_parent
    a = Shmarray::Array.create(:int32, 3)
    [-> { exit }, -> { exit! }, -> { Process.kill(:KILL, Process.pid) }, -> { exec("true") },
     -> { GC.start }].each do |ending|
      Process.wait(fork { ending.call })
      assert_equal [1, [0, 0, 0]], [segments_in.size, Shmarray::Array.attach(a.handle).to_a]
    end
  end

  def test_a_forked_child_keeps_what_its_parent_lets_go
    reader, writer = IO.pipe
    done, finish = IO.pipe
    away do
      a = Shmarray::Array.create(:int32, 3)
      fork do
        [reader, finish].each(&:close)
        done.gets # the parent has let go
        a[1] = 7
        writer.puts a.to_a.inspect, Shmarray::Array.attach(a.handle).to_a.inspect
      end
    end
    [writer, done].each(&:close)
    collect
    assert_equal 1, segments_in.size
    finish.puts "go"
    assert_equal "[0, 7, 0]\n" * 2, reader.read
    Process.wait
    assert_empty segments_in
  end

  def test_the_end_of_an_interpreter_with_live_arrays_is_quiet
    script = <<~RUBY
      require "shmarray"
      $kept = Shmarray::Array.create(:int32, [100, 100])
      KEPT = $kept.transpose
      at_exit { KEPT[0, 0] = 5 }
      ObjectSpace.define_finalizer(Object.new, proc { KEPT[0, 0] })
      Thread.new { loop { $kept.to_bytes } }
    RUBY
    output, status = ruby(script)
    assert_equal ["", 0], [output, status.exitstatus]
    assert_empty segments_in
  end

  def test_dead_arrays_do_not_pile_up
    made = 0
    most = 0
    200.times do
      Shmarray::Array.create(:uint8, 20 << 20)
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

  private

  # Starts a child that creates an array and waits. Returns the handle, and the pipes to the child.
  def handed_over
    reader, writer = IO.pipe
    wait, go = IO.pipe
    fork do
      [reader, go].each(&:close)
      a = yield
      writer.puts a.handle
      wait.gets
      a.size
    end
    [writer, wait].each(&:close)
    [reader.gets.chomp, reader, go]
  end
end
