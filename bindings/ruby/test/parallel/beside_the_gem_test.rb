# frozen_string_literal: true

require_relative "../helper"

# Together with the gem parallel: its processes write to captured shared arrays, and a Reference
# brings one back.
class NumoBesideParallelTest < NumoTest
  def setup
    super
    require "parallel"
  rescue LoadError
    skip "the gem parallel is not installed"
  end

  def test_a_block_writes_to_a_captured_shared_array
    whole = Numo::Shared.new(Numo::Int32, [8, 3, 3])
    assert_equal (0...8).to_a,
                 Parallel.each(0...8, in_processes: 4) { |at| whole[at, true, true].fill(at) }.to_a
    assert_equal (0...8).map { |at| [at] * 9 }, whole.to_a.map(&:flatten)
  end

  def test_references_come_back_as_the_arrays_that_the_children_made
    frames = Parallel.map(0...8, in_processes: 4) do |at|
      { at:, frame: Numo::Shared::Reference.new(Numo::UInt8.new(108, 192, 3).fill(at)) }
    end
    found = frames.map do |one|
      [one[:at], Numo::Shared.shared?(one[:frame]), one[:frame][-1, -1, -1]]
    end
    assert_equal((0...8).map { |at| [at, true, at] }, found)
    frames.each { |one| one[:frame][0] = 7 }
  end

  def test_both_of_them_in_one_program
    whole = Numo::Shared.new(Numo::Int32, [4, 2])
    Numo::Parallel.each_slice_of(whole, in_processes: 2) { |row, at| row.fill(at) }
    sums = Parallel.map(0...4, in_processes: 2) do |at|
      Numo::Parallel.map([1, 2], in_processes: 2) { |n| whole[at, true].sum * n }.sum
    end
    assert_equal [0, 6, 12, 18], sums
  end
end
