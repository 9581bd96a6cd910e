# frozen_string_literal: true

require_relative "../helper"

# Typical programs for the gem parallel, with shared memory as small as a container's, and with
# more.
class NumoSmallMemoryTest < NumoTest
  PROGRAMS = {
    "ten_results_of_20_MB_are_kept" => <<~RUBY,
      results = Numo::Parallel.map(0...10, in_processes: 2) do |i|
        Numo::UInt8.new(20 << 20).fill(i)
      end
      ends = results.map { |array| [array[0], array[-1]] }
      puts ends.inspect == (0...10).map { |i| [i, i] }.inspect
    RUBY
    "a_string_of_100_MB_comes_back" => <<~RUBY,
      text = Numo::Parallel.map([1], in_processes: 2) { "x" * (100 << 20) }.first
      puts text == "x" * (100 << 20)
    RUBY
    "three_thousand_results_of_40_KB_are_kept" => <<~RUBY,
      results = Numo::Parallel.map(0...3000, in_processes: 2) do |i|
        Numo::UInt8.new(40_000).fill(i % 251)
      end
      puts results.each_with_index.all? { |array, i|
        array.size == 40_000 && array.eq(i % 251).all?
      }
    RUBY
    "thirty_calls_whose_results_are_dropped" => <<~RUBY,
      sums = Array.new(30) do |n|
        frames = Numo::Parallel.map(0...2, in_processes: 2) do |i|
          Numo::UInt8.new(10 << 20).fill(i + n)
        end
        frames.sum { |array| array[-1] }
      end
      puts sums == Array.new(30) { |n| 2 * n + 1 }
    RUBY
    "large_items_of_a_producer" => <<~RUBY,
      left = 8
      producer = lambda do
        left -= 1
        left.negative? ? Numo::Parallel::Stop : Numo::UInt8.new(20 << 20).fill(left)
      end
      puts Numo::Parallel.map(producer, in_processes: 2) { |array| array[-1] } == 7.downto(0).to_a
    RUBY
    "views_of_results_are_kept" => <<~RUBY,
      frames = Numo::Parallel.map(0...10, in_processes: 2) do |i|
        [Numo::UInt8.new(20 << 20).fill(i), i]
      end
      results = frames.map { |array, i| array[i..i] }
      frames = nil
      puts results.map(&:to_a) == (0...10).map { |i| [i] }
    RUBY
    "arrays_that_a_block_makes_and_drops" => <<~RUBY,
      sums = Numo::Parallel.map(0...40, in_processes: 2) do |i|
        Numo::Shared.share(Numo::UInt8.new(5 << 20).fill(i)).max
      end
      puts sums == (0...40).to_a
    RUBY
    "a_worker_has_room_where_its_parent_has_garbage" => <<~RUBY,
      4.times { Numo::Shared.new(Numo::UInt8, [10 << 20]).fill(1) }
      found = Numo::Parallel.map([3], in_processes: 2) do |i|
        Numo::Shared.new(Numo::UInt8, [40 << 20]).fill(i)[-1]
      end
      puts found == [3]
    RUBY
    "and_a_worker_of_a_worker" => <<~RUBY
      4.times { Numo::Shared.new(Numo::UInt8, [10 << 20]).fill(1) }
      puts(Numo::Parallel.map([3], in_processes: 2) do |i|
        found = Numo::Parallel.map([i], in_processes: 2) do |n|
          Numo::Shared.new(Numo::UInt8, [40 << 20]).fill(n)[-1]
        end
        found.first
      end == [3])
    RUBY
  }.freeze

  PROGRAMS.keys.product(%w[64m 1g]) do |what, size|
    define_method("test_#{what}_in_#{size}") do
      in_small_tmpfs("size=#{size}") { |dir| assert_says_true(PROGRAMS.fetch(what), dir) }
    end
  end

  # Two arrays that do not fit are an error if the program asks for shared memory itself.
  def test_only_who_asks_for_shared_memory_is_told_that_it_is_full
    in_small_tmpfs("size=64m") do |dir|
      assert_says_true(<<~RUBY, dir)
        20.times { Numo::Shared.new(Numo::UInt8, [20 << 20]).fill(1) }
        [
          -> { Numo::Shared.new(Numo::UInt8, [20 << 20]) },
          -> { Numo::Shared.share(Numo::UInt8.zeros(20 << 20)) },
          -> { Shmarray::Array.create(:uint8, 20 << 20) }
        ].each do |make|
          results = []
          begin
            5.times { results << make.call }
          rescue Errno::ENOSPC
            puts results.size unless [2, 3].include?(results.size)
          else
            puts "no error"
          end
        end
        puts true
      RUBY
    end
  end

  def test_a_worker_that_keeps_what_does_not_fit_is_told
    in_small_tmpfs("size=64m") do |dir|
      assert_says_true(<<~RUBY, dir)
        begin
          Numo::Parallel.map([1], in_processes: 2) do
            Array.new(4) { Numo::Shared.new(Numo::UInt8, [20 << 20]) }
          end
        rescue Errno::ENOSPC => error
          puts error.message.include?("shared memory is full")
        end
      RUBY
    end
  end

  private

  def assert_says_true(program, dir)
    assert_equal "true\n", ruby_says("require 'numo/shared'\n#{program}",
                                     env: { "SHMARRAY_DIR" => dir, "SHMARRAY_POOL_BYTES" => nil })
    assert_empty segments_in(dir)
  end
end
