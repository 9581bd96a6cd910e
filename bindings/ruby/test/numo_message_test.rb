# frozen_string_literal: true

require_relative "helper"

# Numo arrays in messages.
class NumoMessageTest < NumoTest
  def setup
    @here, @there = Shmarray::Pipe.pair
  end

  def test_numo_arrays_are_sent_and_received
    a = Numo::Shared.new(Numo::Int32, [3, 4]).seq
    pid = fork do
      @there.receive do |message|
        b = Numo::Shared.attach(message.array(0))
        b[0, 0] = 99
        @there.send_arrays("", [b.transpose, Numo::Shared.share(b + 1)])
      end
      exit!(0)
    end
    @here.send_arrays("", [a[true, 1..2]])
    view, sum = @here.receive do |message|
      [0, 1].map { |index| Numo::Shared.attach(message.array(index)) }
    end
    Process.wait(pid)
    assert_equal [Numo::Int32, [[99, 5, 9], [2, 6, 10]]], [view.class, view.to_a]
    assert_equal [[100, 3], [6, 7], [10, 11]], sum.to_a
    assert Numo::Shared.shared?(view)
    view[1, 0] = 7
    assert_equal 7, a[0, 2]
  end

  def test_a_readonly_one_stays_so
    @here.send_arrays("", [Numo::Shared.new(Numo::Int32, 3)])
    @there.receive do |message|
      assert_predicate Numo::Shared.attach(message.array(0, readonly: true)), :frozen?
      assert_predicate Numo::Shared.attach(message.array(0), readonly: true), :frozen?
      refute_predicate Numo::Shared.attach(message.array(0)), :frozen?
    end
  end

  def test_an_array_in_private_memory_is_refused
    error = assert_raises(ArgumentError) { @here.send_arrays("", [Numo::Int32[1, 2]]) }
    assert_match(/Numo::Shared.share/, error.message)
    assert_raises(TypeError) { Numo::Shared.attach(Numo::Int32[1, 2]) }
  end

  def test_a_handle_to_send_holds
    handle = away { Numo::Shared.handle_to_send(Numo::Shared.new(Numo::DFloat, 3).fill(2)) }
    collect
    assert_equal 0, Shmarray.sweep[:segments]
    assert_equal [2, 2, 2], Numo::Shared.attach(handle).to_a
  end
end
