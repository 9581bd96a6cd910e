# frozen_string_literal: true

require_relative "helper"

# Forks: in whatever order and way the processes of a family die, the others keep exactly what they
# hold.
class ForksTest < SharedMemoryTest
  def test_parent_child_and_grandchild_end_in_any_order
    adopt_orphans
    (0..2).to_a.permutation.to_a.product(ENDINGS.keys).each do |order, ending|
      three_generations(ending) do |pids, waits, says|
        order.each do |number|
          Shmarray.sweep # what the dead alone held, and no more
          waits[number][1].write(".")
          assert_equal "#{number} saw [#{[70 + number] * 4 * ", "}] and #{number}\n", says.gets,
                       [order, ending].inspect
        end
        assert_nil says.gets # they are about to end
        pids.each { |pid| Process.wait(pid) } # each is ours when its parent is gone
      end
      assert_nothing_left ending
    end
  end

  def test_forks_beside_threads_that_make_and_drop_leave_both_sides_working
    held = Held.new
    rounds = [0, 0, 0]
    stop = false
    threads = rounds.each_index.map do |at|
      Thread.new { rounds[at] += 1 while !stop && work(held.handle) }
    end
    turn = 0
    while turn < 30 || rounds.min < 30
      name, ending = ENDINGS.to_a[turn % 3]
      status = Process.wait2(fork { be_child(held, turn, ending) })[1]
      assert_equal name == "killed" ? 9 : 0, status.to_i, name
      assert_equal [turn] * 4, held.seen
      turn += 1
    end
    stop = true
    threads.each(&:join)
    Shmarray.sweep
  end

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
      kept = held.reader
      held = nil
      GC.compact if GC.respond_to?(:compact)
      4.times { GC.start }
      Shmarray.sweep
      exit!(kept[2, 3] == 11 ? 0 : 1)
    end)[1]
    assert_predicate status, :success?
    assert_equal [0, before], [Shmarray.sweep[:segments], segments_in]
    assert_equal [8] * 4, held.write(8).seen
  end

  def test_forty_generations_hold_at_once_and_leave_nothing
    held = Held.new
    status = Process.wait2(fork { generation(held, 40) })[1]
    assert_predicate status, :success?
    assert_equal [0] * 4, held.seen
    Shmarray.sweep
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

  # Forks three generations. Each prints which it is, waits at a pipe of its own, and prints what it
  # sees.
  def three_generations(ending)
    waits = ::Array.new(3) { IO.pipe }
    says, said = IO.pipe
    fork { generation_of_three(waits, said, ENDINGS[ending]) }
    said.close
    pids = ::Array.new(3) { says.gets.split.map(&:to_i) }.sort.map(&:last)
    yield pids, waits, says
    [*waits.flatten, says].each(&:close)
  end

  def generation_of_three(waits, said, ending)
    held = Held.new
    said.sync = true
    number = 0
    number += 1 while number < 2 && fork.nil?
    own = Shmarray::Array.create(:int64, 3)
    own[1] = number
    said.puts "#{number} #{Process.pid}"
    waits[number][0].read(1)
    said.puts "#{number} saw #{held.write(70 + number).seen} and #{own[1]}"
    ending.call
  end

  def work(handle)
    own = Shmarray::Array.create(:int64, 1000)
    again = Shmarray::Array.attach(own.handle, readonly: true)
    own[999] = 7
    raise "not the same" unless again[999] == 7 && Shmarray::Array.attach(handle)[2, 3] == 11

    Thread.pass # or it would run for a tenth of a second
    true
  end

  def be_child(held, turn, ending)
    own = Shmarray::Array.create(:int64, 1000)
    own[999] = turn
    good = Shmarray::Array.attach(own.handle)[999] == turn && held.write(turn).seen == [turn] * 4
    good ? ending.call : exit!(1)
  end

  def generation(held, left)
    good = held.write(left).seen == [left] * 4
    good &&= Process.wait2(fork { generation(held, left - 1) })[1].success? if left.positive?
    left.even? ? exit(good) : exit!(good)
  end
end
