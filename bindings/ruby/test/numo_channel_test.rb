# frozen_string_literal: true

require_relative "helper"

# Channels whose arrays are Numo's.
class NumoChannelTest < NumoTest
  def test_frames_are_filled_and_read_in_place
    sends = Numo::Shared::Channel.create("frames", Numo::SFloat, [2, 3], slots: 2)
    receives = Numo::Shared::Channel.open("frames")
    sends.loan(meta: "left") do |frame|
      assert_instance_of Numo::SFloat, frame
      frame[true, true] = [[0, 1, 2], [3, 4, 5]]
    end
    sends.send_array(Numo::SFloat.ones(2, 3))
    sends.close
    found = []
    receives.each { |frame, message| found << [frame.sum, message.meta, message.sequence] }
    assert_equal [[15.0, "left", 0], [6.0, "", 1]], found
    assert_raises(TypeError) { Numo::Shared::Channel.create("bits", Numo::Bit, [2]) }
  end

  def test_a_frame_is_empty_after_its_block_unless_it_is_kept
    channel = Numo::Shared::Channel.create("frames", Numo::Int32, [2, 3], slots: 2)
    frame = nil
    channel.loan { |a| (frame = a).fill(1) }
    assert_equal [[0, 0], 0], [frame.shape, frame.size]
    channel.receive { |a| frame = a }
    assert_equal [[0, 0], 0], [frame.shape, frame.size]
    channel.loan { |a| a.fill(2) }
    kept = channel.receive { |_, message| message.keep }
    channel.loan { |a| a.fill(3) }
    copy = channel.receive { |_, message| message.copy }
    assert_equal [2 * 6, 3 * 6], [kept.sum, copy.sum]
    channel.loan { |a| a.fill(4) }
    assert_equal 24, channel.first.sum
    assert_equal 12, kept.sum
  end

  def test_arrays_that_lie_elsewhere_arrive_as_they_are
    arrays = Numo::Shared::Channel.create_by_handle("arrays")
    a = Numo::Shared.new(Numo::Int32, [2, 3])
    arrays.send_array(a)
    arrays.send_array(Numo::DFloat[1, 2])
    arrays.receive { |b| b[1, 2] = 7 }
    assert_equal 7, a[1, 2]
    arrays.receive { |b| assert_equal Numo::DFloat[1, 2], b }
  end

  def test_a_child_works_on_what_its_parent_sends
    requests = Numo::Shared::Channel.create("requests", Numo::Int64, [3])
    answers = Numo::Shared::Channel.create("answers", Numo::Int64, [3])
    child = fork do
      requests.each { |a| answers.send_array(a * 2) }
      answers.close
    end
    10.times do |number|
      requests.loan { |a| a.fill(number) }
      answers.receive { |a| assert_equal [2 * number] * 3, a.to_a }
    end
    requests.close
    Process.wait(child)
    assert_predicate $?, :success?
  end
end
