# frozen_string_literal: true

require_relative "helper"

# Forks of a thread, and of a child that compacts: ci/checks/scenarios/test_forks.py has the others.
class ForksTest < SharedMemoryTest
  def test_a_child_of_a_thread_holds_what_its_process_held
    held = Held.new
    status = Thread.new { Process.wait2(fork { be_child(held, 5, -> { exit }) })[1] }.value
    assert_predicate status, :success?
    assert_equal [5] * 4, held.seen
  end

  def test_a_child_that_collects_and_compacts_takes_nothing_from_its_parent
    held = Held.new
    before = segments_in
    status = Process.wait2(fork do
      array = held.reader
      held = nil
      GC.compact if GC.respond_to?(:compact)
      4.times { GC.start }
      Shmarray.sweep
      exit!(array[2, 3] == 11 ? 0 : 1)
    end)[1]
    assert_predicate status, :success?
    assert_equal [0, before], [Shmarray.sweep[:segments], segments_in]
    assert_equal [8] * 4, held.write(8).seen
  end

  # An array of 3 by 4, and three more ways to reach it.
  class Held
    attr_reader :handle, :reader

    def initialize
      @array = Shmarray::Array.create(:int64, [3, 4])
      @array[nil] = (0...12).each_slice(4).to_a
      @handle = @array.handle
      @reader = Shmarray::Array.attach(@handle, readonly: true)
      @view = @array[1..2, (0..) % 2]
      @turned = Shmarray::Array.attach(@array.transpose.handle)
    end

    def write(value)
      @array[1, 2] = value
      self
    end

    # The element by all views, and by the handle.
    def seen
      [@reader[1, 2], @view[0, 1], @turned[2, 1], Shmarray::Array.attach(@handle)[1, 2]]
    end
  end

  private

  def be_child(held, turn, ending)
    own = Shmarray::Array.create(:int64, 1000)
    own[999] = turn
    good = Shmarray::Array.attach(own.handle)[999] == turn && held.write(turn).seen == [turn] * 4
    good ? ending.call : exit!(1)
  end
end
