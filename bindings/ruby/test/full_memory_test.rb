# frozen_string_literal: true

require_relative "helper"

# Full shared memory: an error with the facts, never a bus error, and nothing half-made.
class FullMemoryTest < SharedMemoryTest
  SMALL = 4 << 20
  SIZES = { "8 B" => 8, "4 KiB" => 4 << 10, "64 KiB" => 64 << 10, "1 MiB" => 1 << 20 }.freeze
  FACTS = /\A(?:No\ space\ left\ on\ device\ -\ )?shared\ memory\ is\ full:\ (\d+)\ bytes\ asked,
           \ (\d+)\ bytes\ free\ in\ (\S+);.*--shm-size/x

  [false, true].product(SIZES.keys).each do |named, what|
    kind = "#{"named_" if named}#{what.tr(" ", "_")}"
    define_method("test_memory_full_of_#{kind}_keeps_them_and_has_room_again") do
      in_small_tmpfs("size=#{SMALL}") { |dir| fill_drop_and_fill(dir, SIZES[what], named) }
    end
  end

  def test_an_array_larger_than_all_memory_is_only_an_error
    in_small_tmpfs("size=#{SMALL}") do |dir|
      kept = [filled(1000, 7)]
      before = segments_in
      [SMALL + 1, 1 << 30, 1 << 40, 1 << 62].product([nil, "large"]).each do |size, name|
        error = assert_raises(Errno::ENOSPC) { Shmarray::Array.create(:uint8, size, name: name) }
        check_facts(error, size, dir)
        assert_equal before, segments_in
      end
      kept << filled(1000, 8)
      assert(kept.zip([7, 8]).all? { |array, value| all?(array, value) })
    end
  end

  def test_a_process_that_forks_where_it_is_full_gives_its_child_all_of_it
    in_small_tmpfs("size=#{SMALL}") do |dir|
      arrays, = until_full(64 << 10)
      before = segments_in
      free = free_bytes(dir)
      in_child do
        arrays.each_with_index { |array, number| refill(array, number, number + 1) }
        error = assert_raises(Errno::ENOSPC) { Shmarray::Array.create(:uint8, 64 << 10) }
        check_facts(error, 64 << 10, dir)
        nil
      end
      assert_equal [before, free], [segments_in, free_bytes(dir)]
      assert(arrays.each_with_index.all? { |array, number| all?(array, number + 1) })
    end
  end

  def test_another_process_attaches_and_is_told_where_it_is_full
    in_small_tmpfs("size=#{SMALL}") do |dir|
      arrays, = until_full(64 << 10)
      output, status = ruby(<<~RUBY, *arrays.map(&:handle))
        require "shmarray"
        arrays = ARGV.map { |handle| Shmarray::Array.attach(handle) }
        puts arrays.map { |array| array[-1] }.inspect
        arrays.each { |array| array[-1] += 1 }
        begin
          Shmarray::Array.create(:uint8, 64 << 10)
        rescue Errno::ENOSPC => error
          puts error.message
        end
      RUBY
      values, said = output.lines(chomp: true)
      assert_equal [(0...arrays.size).to_a.inspect, true], [values, status.success?]
      assert_match FACTS, said
      assert_equal (1..arrays.size).to_a, arrays.map { |array| array[-1] }
    end
  end

  # Ruby itself collects when there are too many open files. Likewise unreferenced arrays are no
  # reason to fail.
  def test_unreferenced_arrays_make_room
    in_small_tmpfs("size=#{SMALL}") do
      kept = filled(1000, 7)
      100.times { |number| away { filled(1 << 20, number % 251) } }
      assert all?(kept, 7)
    end
  end

  # One of the inodes is the directory's own. With names, it is the name that finds no room in one
  # of the two cases.
  [[false, 21], [true, 21], [true, 22]].each do |named, inodes|
    what = "#{inodes}_files#{"_with_names" if named}"
    options = "size=64m,nr_inodes=#{inodes}"

    define_method("test_room_for_#{what}_keeps_what_is_there_and_has_room_again") do
      in_small_tmpfs(options) { |dir| fill_files_and_drop(dir, named) }
    end

    define_method("test_no_room_for_more_than_#{what}_is_no_space_with_the_directory") do
      in_small_tmpfs(options) do |dir|
        arrays, error = until_full(64 << 10, named)
        refute_empty arrays
        assert_includes error.message, dir
        assert_match(/shared memory is full/, error.message)
      end
    end
  end

  private

  def empty(size, named = false)
    @names = (@names || 0) + 1
    Shmarray::Array.create(:uint8, size, name: named ? "n#{@names}" : nil)
  end

  def filled(size, value)
    empty(size).tap { |array| array[nil] = value }
  end

  def all?(array, value)
    array.to_bytes == (value % 251).chr * array.size
  end

  def refill(array, value, other)
    raise "it is not all #{value}" unless all?(array, value)

    array[nil] = other % 251
  end

  def free_bytes(dir)
    `stat -f -c '%a %S' #{dir}`.split.map(&:to_i).inject(:*)
  end

  # Creates arrays until it fails, and returns them with the error. A failure leaves nothing behind.
  # Each array has its number as its value. None is touched before the last is created: each has its
  # memory from the beginning.
  def until_full(size, named = false)
    arrays = []
    loop { arrays << empty(size, named) }
  rescue SystemCallError => error
    before = segments_in
    assert_raises(error.class) { empty(size, named) }
    assert_equal before, segments_in
    [arrays.each_with_index { |array, number| refill(array, 0, number) }, error]
  end

  def check_facts(error, size, dir)
    assert_instance_of Errno::ENOSPC, error
    assert_match FACTS, error.message
    asked, free, directory = FACTS.match(error.message).captures
    assert_operator asked.to_i, :>=, size
    assert_operator free.to_i, :<, asked.to_i
    assert_equal [free_bytes(dir), dir], [free.to_i, directory]
  end

  def refill_all(arrays)
    arrays.each_with_index { |array, number| refill(array, number, number + 1) }
    assert(arrays.each_with_index.all? { |array, number| all?(array, number + 1) })
  end

  # The number of arrays for which there was room.
  def fill_and_check(dir, size, named)
    arrays, error = until_full(size, named)
    check_facts(error, size, dir)
    refute_empty arrays
    refill_all(arrays)
    arrays.size
  end

  # Runs in children: when they end, everything is freed that a conservative collector may keep.
  def fill_drop_and_fill(dir, size, named)
    in_child { filled(1, 0) && nil } # makes the registry, which stays
    empty = free_bytes(dir)
    first = in_child { fill_and_check(dir, size, named) }
    assert_equal [[], empty], [segments_in, free_bytes(dir)]
    in_child { drop_some_and_fill(size, named) && nil }
    assert_equal [[], empty], [segments_in, free_bytes(dir)]
    assert_equal first, in_child { fill_and_check(dir, size, named) }
  end

  # The number of arrays for which there is room after every second one was dropped.
  def drop_some_and_fill(size, named)
    kept = away { until_full(size, named)[0].each_slice(2).filter_map(&:last) }
    refute_empty kept
    values = kept.map { |array| array[0] }
    collect
    more = away { until_full(size, named)[0].tap { |arrays| refill_all(arrays) }.size }
    assert_operator more, :>=, 1
    assert(kept.zip(values).all? { |array, value| all?(array, value) })
  end

  def fill_files_and_drop(dir, named)
    fill = -> { until_full(64 << 10, named)[0].tap { |arrays| refill_all(arrays) }.size }
    first = in_child do
      fill.call.tap { assert_operator free_bytes(dir), :>, 8 << 20 }
    end
    in_child { drop_some_and_fill(64 << 10, named) && nil }
    assert_empty segments_in
    assert_equal first, in_child(&fill)
  end
end

# The same by way of Numo.
class NumoFullMemoryTest < NumoTest
  def test_numo_arrays_fill_it_and_are_whole
    in_small_tmpfs("size=4m") do |dir|
      private_one = Numo::Int32.new(100, 200).seq
      [-> { Numo::Shared.share(private_one.transpose) },
       -> { Numo::Shared.new(Numo::Int32, [200, 100]) }].each do |make|
        in_child { fill(make, dir) && nil }
      end
    end
  end

  private

  def fill(make, dir)
    arrays = []
    error = assert_raises(Errno::ENOSPC) { loop { arrays << make.call } }
    assert_match(/shared memory is full: 8\d{4} bytes asked, \d+ bytes free in #{dir};/,
                 error.message)
    before = segments_in
    assert_raises(Errno::ENOSPC) { make.call }
    assert_equal before, segments_in
    assert_operator arrays.size, :>, 10
    arrays.each_with_index { |array, number| array.store(number) }
    assert(arrays.each_with_index.all? { |array, number| array.eq(number).all? })
  end
end
