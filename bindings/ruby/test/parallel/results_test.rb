# frozen_string_literal: true

require_relative "../helper"
require "timeout"

# Numo::Parallel: its results, their order, and the ends of workers.
class NumoParallelTest < NumoTest
  def map(items, **options, &block)
    Numo::Parallel.map(items, in_processes: 2, **options, &block)
  end

  # Fails if a child of this process is left.
  def assert_no_worker
    assert_raises(Errno::ECHILD) { Process.wait(-1, Process::WNOHANG) }
  end

  def test_each_child_fills_its_own_slice
    images = Numo::Shared.new(Numo::Int32, [2, 3, 3])
    found = Numo::Parallel.each_slice_of(images, in_processes: 2) { |image, i| image.fill(i + 1) }
    assert_same images, found
    assert_equal [[[1] * 3] * 3, [[2] * 3] * 3], images.to_a
    assert_no_worker
  end

  def test_slices_of_any_axis
    whole = Numo::Shared.new(Numo::DFloat, [2, 3, 4])
    { 1 => [2, 4], -1 => [2, 3] }.each do |axis, shape|
      Numo::Parallel.each_slice_of(whole, axis:, in_processes: 2) do |slice, i|
        slice.fill(slice.shape == shape ? i : -1)
      end
      assert_equal whole.shape[axis] - 1, whole.max
      assert_equal (0...whole.shape[axis]).map(&:to_f), whole.to_a.flatten.uniq.sort
    end
    line = Numo::Shared.new(Numo::Int8, 3)
    Numo::Parallel.each_slice_of(line, in_processes: 2) { |one, i| one[0] = i + 5 }
    assert_equal [5, 6, 7], line.to_a
    assert_raises(IndexError) { Numo::Parallel.each_slice_of(line, axis: 1) { nil } }
    assert_raises(ArgumentError) { Numo::Parallel.each_slice_of(Numo::Int8[1, 2]) { nil } }
  end

  def test_results_come_through_shared_memory_in_the_order_of_the_items
    results = map(1..5) { |n| Numo::DFloat.new(n, 10_000).fill(n) }
    results.each.with_index(1) do |array, n|
      assert_instance_of Numo::DFloat, array
      assert came_shared?(array)
      assert_equal [[n, 10_000], [n.to_f]], [array.shape, array.to_a.flatten.uniq]
    end
    results[0][0, 0] = 9 # and can be written to
    assert_equal 9, results[0][0, 0]
  end

  # Workers are forked with the items.
  def test_an_array_in_several_items_is_copied_for_none
    array = Numo::DFloat.new(200_000).seq
    before = Shmarray.copied_bytes
    sums = map([array] * 8) { |one| [one.sum, Shmarray.copied_bytes] }
    assert_equal [[array.sum, before]], sums.uniq
    assert_equal before, Shmarray.copied_bytes
  end

  # The gem parallel's results are Marshal's: no later process writes to them.
  def test_results_are_this_processes_own
    [3, 50_000].each do |size|
      kept = map([1, 2]) { |n| Numo::Int32.new(size).fill(n) }
      kept.each { |array| array.inplace + 10 }
      changed = map(kept) { |array| (array.inplace + 1).sum / size }
      assert_equal [12, 13], changed
      assert_equal [[11], [12]], kept.map { |array| array.to_a.uniq }
      assert_equal [11, 12], map(kept) { |array| array[-1] }, "also later"
      kept.each { |array| refute Numo::Shared.shared?(array) }
      assert_raises(ArgumentError) { Numo::Shared.handle(kept[0]) }
    end
  end

  def test_what_is_kept_is_not_changed_by_later_results
    kept = map(1..6) { |n| Numo::Int32.new(50_000).fill(n) }
    6.times do |round|
      results = map(1..6) { |n| Numo::Int32.new(50_000).fill(10 * round + n) }
      assert_equal((1..6).map { |n| [10 * round + n] }, results.map { |array| array.to_a.uniq })
      results.each { |array| array.fill(-1) }
    end
    assert_equal((1..6).map { |n| [n] }, kept.map { |array| array.to_a.uniq })
  end

  def test_a_result_is_shared_by_a_copy
    result = map([1]) { |n| Numo::Int32.new(50_000).fill(n) }.first
    shared = Numo::Shared.share(result)
    shared[0] = 7
    assert_equal [true, 1], [Numo::Shared.shared?(shared), result[0]]
    wrapped = Shmarray::Array.wrap(result)
    wrapped[1] = 8
    assert_equal 1, result[1]
    here, = Shmarray::Pipe.pair
    assert_raises(ArgumentError) { here.send_arrays("", [result]) }
    back = map([result]) { |array| array }.first
    back[2] = 9
    assert_equal 1, result[2]
  end

  def test_numo_does_not_free_the_memory_of_a_result
    array = map([1]) { |n| Numo::UInt8.new(50_000).fill(n) }.first
    array.free
    assert_equal 1, array[49_999]
    array.store_binary("\2".b * 50_000)
    assert_equal [2], array.to_a.uniq
    assert_raises(TypeError) { array.send(:initialize, 3) }
  end

  # Small arrays go through the pipe: that is faster, and they take no page of shared memory each.
  def test_results_of_less_than_32_kib_are_private_arrays
    sizes = [1, 32_767, 32_768]
    found = map(sizes) { |size| Numo::UInt8.new(size).fill(size % 7) }
    assert_equal [false, false, true], found.map { |array| came_shared?(array) }
    assert_equal sizes.map { |size| [size, [size % 7]] },
                 found.map { |array| [array.size, array.to_a.uniq] }
    apart = map([1]) { [Numo::UInt8.new(20_000).fill(1), Numo::UInt8.new(20_000).fill(2)] }.first
    assert(apart.all? { |array| came_shared?(array) }, "together they are larger")
  end

  def test_every_class_comes_back
    map(CLASSES) { |type| type.new(2, 2).seq }.zip(CLASSES) do |array, type|
      assert_instance_of type, array
      assert_equal type.new(2, 2).seq, array
    end
  end

  Pair = ::Struct.new(:left, :right)

  def test_arrays_are_found_in_arrays_hashes_and_structs
    [3, 50_000].each do |size|
      results = map([size]) do |n|
        [Pair.new({ "a" => [Numo::Int8.new(n).fill(3)] }, :b), { c: nil }]
      end
      nested = results.first
      assert_equal [Pair, :b, { c: nil }], [nested[0].class, nested[0].right, nested[1]]
      found = nested[0].left["a"][0]
      assert_equal [size > 3, [3] * size], [came_shared?(found), found.to_a]
    end
  end

  def test_views_that_overlap_come_back_as_arrays_of_their_own
    [4, 4096, 40_000].each do |size|
      found = map([0]) do
        all = Numo::DFloat.new(3 * size).seq
        [all[0...(2 * size)], all[size..], all]
      end.first
      found.each { |array| array.inplace * 2 }
      all = Numo::DFloat.new(3 * size).seq * 2
      assert_equal [all[0...(2 * size)], all[size..], all], found
    end
  end

  def test_a_second_call_uses_the_memory_of_the_first_ones_results
    # With start: a worker has its buffers before it begins a job.
    frames = lambda do
      map([*0...4], start: ->(_item, _index) {}) { |i| Numo::UInt8.new(500, 1000).fill(i) }
    end
    away { frames.call && nil }
    found = frames.call
    collect
    assert_equal [0, 1, 2, 3], (found.map { |frame| frame[9, 9] })
    listed = listed_arrays.select { |one| one[:segment_bytes] >= 500_000 }
    assert_operator listed.size, :>=, 4
    assert_equal [Process.pid], listed.map { |one| one[:creator_pid] }.uniq
  end

  def test_an_object_that_occurs_twice_stays_one
    map([100, 50_000]) do |size|
      array = Numo::UInt8.new(size).fill(7)
      list = [array]
      [list, list, [array].tap { |cycle| cycle << cycle }]
    end.each do |one, other, around|
      assert_same one, other
      assert_same one[0], around[0]
      assert_same around, around[1]
    end
  end

  def test_objects_that_the_block_keeps_are_not_changed
    returned = nil
    back = map([1], in_processes: 0) { returned = { a: [Numo::Int8[1]] } }.first
    assert_same returned, back
    refute map([1]) { |_| list = [Numo::Int8[1]]; [list, came_shared?(list[0])] }.first[1]
  end

  def test_a_shared_array_comes_back_itself
    whole = Numo::Shared.new(Numo::Int32, [4, 4])
    column, reversed = map([1, 2]) { |n| n == 1 ? whole[true, n] : whole[0, true].reverse }
    column.fill(5)
    reversed[0] = 9
    assert_equal [[0, 5, 0, 9], [0, 5, 0, 0]], whole[0..1, true].to_a
    plain = Shmarray::Array.create(:int16, 3)
    map([1]) { plain }.first[1] = 4
    assert_equal [0, 4, 0], plain.to_a
  end

  def test_arrays_of_no_class_that_can_be_shared_come_by_marshal
    bits, objects, number = map([0, 1, 2]) do |n|
      [Numo::Bit[1, 0, 1], Numo::RObject[1, "x"], 5 * n][n]
    end
    assert_equal [[1, 0, 1], [1, "x"], 10], [bits.to_a, objects.to_a, number]
  end

  def test_strided_swapped_indexed_and_empty_arrays_come_back
    base = Numo::Int32.new(4, 6).seq
    views = [base.transpose, base[true, [0, 2]], base[1..2, (0..) % 3], Numo::Int32.new(0, 3),
             base.reverse]
    results = map(views.each_index) { |n| views[n] }
    results.zip(views) { |found, view| assert_equal view.to_a, found.to_a }
    assert_equal base.to_a, map([1]) { base.to_swapped }.first.to_a
  end

  # Results in the parent's memory: of one size, of different sizes, and empty ones.
  def test_results_of_many_sizes_come_back_whole
    [0, nil].each do |pool|
      ENV["SHMARRAY_POOL_BYTES"] = pool&.to_s
      sizes = [200_000] * 6 + [150_000, 90_000, 10, 0, 300_000] * 2
      map(sizes.each_with_index) do |size, n|
        [Numo::UInt8.new(size).fill(n), Numo::DFloat.new(size / 100).fill(n)]
      end
        .zip(sizes).each_with_index do |((bytes, numbers), size), n|
        assert_equal [[size], [size / 100]], [bytes.shape, numbers.shape]
        assert_empty (bytes.to_a + numbers.to_a).uniq - [n, n.to_f]
      end
    end
  end

  def test_items_that_a_producer_gives_arrive_with_their_arrays
    waiting = [Numo::Int8[1, 2], Numo::Shared.share(Numo::Int8[3]), 4]
    results = map(-> { waiting.empty? ? Numo::Parallel::Stop : waiting.shift }) { |item| item + 1 }
    assert_equal [[2, 3], [4], 5], results.map { |one| one.is_a?(Numo::NArray) ? one.to_a : one }
    queue = Queue.new
    [1, 2, Numo::Parallel::Stop].each { |item| queue << item }
    assert_equal [2, 4], map(queue) { |item| item * 2 }
  end

  def test_the_whole_family_of_methods
    parallel = Numo::Parallel
    assert_equal [10, 21], parallel.map_with_index([10, 20], in_processes: 2) { |item, i| item + i }
    assert_equal [1, 1, 2, 2], parallel.flat_map([1, 2], in_processes: 2) { |n| [n, n] }
    assert_equal [1, 3], parallel.filter_map(1..3, in_processes: 2) { |n| n if n.odd? }
    assert_equal [true, false],
                 [2, 9].map { |n| parallel.any?([1, 2], in_processes: 2) { |m| m == n } }
    assert_equal [true, false],
                 [9, 2].map { |n| parallel.all?([1, 2], in_processes: 2) { |m| m < n } }
    items = [1, 2]
    # The block's result is dropped in the worker.
    assert_same items, parallel.each(items, in_processes: 2) { -> {} }
    assert_equal [[], []], [map([]) { 1 }, parallel.each([], in_processes: 2) { 1 }]
    numbers = parallel.map([1, 2], in_processes: 2, isolation: true) { parallel.worker_number }
    assert_empty numbers - [0, 1]
    assert_equal [0], parallel.map([1, 2], in_processes: 0) { parallel.worker_number }.uniq
    assert_nil parallel.worker_number
  end

  def test_processes
    parent = Process.pid
    assert_equal [parent], parallel_pids(4, in_processes: 0)
    refute_includes parallel_pids(4, in_processes: 2), parent
    assert_equal 4, parallel_pids(4, in_processes: 2, isolation: true).size
    assert_equal 1, parallel_pids(1, in_processes: 5).size
  end

  def parallel_pids(count, **options)
    Numo::Parallel.map(Array.new(count), **options) { Process.pid }.uniq
  end

  def test_bad_arguments_are_refused
    assert_raises(ArgumentError) { map([1]) }
    assert_raised(/either in_processes: or in_threads:/) { map([1], in_threads: 2) { 1 } }
    assert_raised(/in_processes: must be 0 or more, not -1/) { map([1], in_processes: -1) { 1 } }
    assert_raised(/in_ractors: is not supported: .*Ractor's/) { map([1], in_ractors: 2) { 1 } }
    assert_raised(/in_ractors: is not supported/) do
      map([1], in_ractors: 2, ractor: [Object, :new])
    end
    assert_raised(/interrupt_signal: is not supported: SIGINT/) do
      map([1], interrupt_signal: "TERM") { 1 }
    end
    assert_raised(/serializer: is not supported: .*Marshal/) { map([1], serializer: Marshal) { 1 } }
    assert_raised(/unknown option: in_process/) { map([1], in_process: 2) { 1 } }
    assert_raised(/result has a Numo::Int32 of shape \[2, 3\] that was never filled/) do
      map([1]) { [Numo::Int32.new(2, 3)] }
    end
    assert_raises(ArgumentError) { map(-> { Numo::Parallel::Stop }, progress: true) { 1 } }
  end

  def assert_raised(pattern, &block)
    assert_match pattern, assert_raises(ArgumentError, &block).message
  end

  def test_callbacks_hear_of_each_job_one_at_a_time
    said = []
    finish = ->(item, index, result) { said << [:finish, item, index, result] }
    map([5, 6, 7], start: ->(item, index) { said << [:start, item, index] }, finish:) { |n| n + 1 }
    assert_equal [[:start, 5, 0], [:start, 6, 1], [:start, 7, 2]],
                 said.grep_v(->(one) { one[0] == :finish }).sort
    assert_equal [[5, 0, 6], [6, 1, 7], [7, 2, 8]],
                 said.select { |one| one[0] == :finish }.map { |one| one.drop(1) }.sort
  end

  # The first job ends last: it waits for the second.
  def test_callbacks_in_order
    reader, writer = IO.pipe
    said = []
    finish = ->(_, index, result) { said << [index, result] }
    Numo::Parallel.each([0, 1], in_processes: 2, finish:, finish_in_order: true) do |n|
      n.zero? ? reader.read(1) : writer.write("x").then { "second" }
    end
    assert_equal [[0, "x"], [1, "second"]], said
  end

  def test_an_exception_has_its_class_message_and_backtrace
    error = assert_raises(IndexError) do
      map([1, 2]) { |n| n == 2 ? raise(IndexError, "number #{n}") : n }
    end
    assert_equal "number 2", error.message
    assert_match(/#{File.basename(__FILE__)}:\d+/, error.backtrace.first)
    assert_raises(NotImplementedError) { map([1]) { raise NotImplementedError } }
    assert_no_worker
  end

  def test_a_result_that_marshal_refuses_raises
    assert_raises(TypeError) { map([1]) { -> {} } }
    odd = Class.new(StandardError)
    error = assert_raises(Numo::Parallel::UndumpableException) do
      map([1]) { raise odd, "of no name" }
    end
    assert_match(/of no name/, error.message)
    assert_match(/#{File.basename(__FILE__)}/, error.backtrace.first)
    bindings = IndexError.new.tap do |one|
      one.instance_variable_set(:@__better_errors_bindings_stack, [binding])
    end
    assert_raises(IndexError) { map([1]) { raise bindings } }
  end

  def test_a_break_brings_its_value
    assert_equal [1, 2], map([1, 2, 3]) { raise Numo::Parallel::Break, [1, 2] }
    assert_nil(map([1, 2, 3]) { raise Numo::Parallel::Break })
    odd = Class.new(StandardError)
    because = map([1]) do
      raise odd
    rescue odd
      raise Numo::Parallel::Break, "what a break had for a cause stays there"
    end
    assert_match(/stays there/, because)
    never, = IO.pipe
    assert_equal(4, map([1, 2]) { |n| n == 1 ? raise(Numo::Parallel::Kill, 4) : never.read })
    assert_no_worker
  end

  def test_a_dead_worker_is_told_and_not_waited_for
    { KILL: /SIGKILL/, exit: /exit code 3/ }.each do |how, pattern|
      error = assert_raises(Shmarray::WorkerLost) { map([1, 2]) { |n| die(how) if n == 2 } }
      assert_match pattern, error.message
      assert_match(/item 1/, error.message)
    end
    assert_no_worker
  end

  def die(how)
    how == :exit ? exit!(3) : Process.kill(how, Process.pid)
  end

  # The worker's pipe is still open in its child.
  def test_a_dead_worker_is_told_though_a_child_of_its_own_lives
    reader, writer = IO.pipe
    assert_raises(Shmarray::WorkerLost) do
      map([1]) do
        fork { writer.close && reader.read }
        Process.kill(:KILL, Process.pid)
      end
    end
    [reader, writer].each(&:close) # and so that ends, too
  end

  def test_an_interrupted_caller_leaves_no_worker
    never, writer = IO.pipe
    begun, tell = IO.pipe
    # A worker that is left ends with this process.
    wait = ->(_) { [writer.close, tell.write("x"), never.read] }
    thread = Thread.new { map([1, 2], &wait) }
    begun.read(2)
    thread.kill.join
    assert_no_worker
    interrupted = Class.new(StandardError)
    main = Thread.current
    Thread.new { begun.read(2) && main.raise(interrupted) }
    assert_raises(interrupted) { map([1, 2], &wait) }
    assert_no_worker
    writer.close
  end

  # A worker may be at its job while its parent is still in fork.
  def test_a_caller_interrupted_in_a_fork_leaves_no_worker
    interrupted = Class.new(StandardError)
    left = 0
    interrupt = ->(pid) { Thread.current.raise(interrupted) if pid.positive? && (left -= 1).zero? }
    interrupting = Module.new { define_method(:_fork) { super().tap(&interrupt) } }
    Process.singleton_class.prepend(interrupting)
    never, writer = IO.pipe
    { 1 => {}, 2 => { start: ->(*) {} }, 3 => { isolation: true } }.each do |forks, options|
      left = forks
      assert_raises(interrupted) do
        map([1, 2, 3], **options) { |n| [writer.close, never.read] if n < 3 && forks < 3 }
      end
      assert_no_worker
    end
    writer.close
  end

  def test_ctrl_c_says_nothing_in_workers
    output = ruby_says(<<~RUBY)
      require "numo/shared"
      Process.setpgrp
      begun, tell = IO.pipe
      Thread.new { begun.read(2) && Process.kill(:INT, 0) }
      never, writer = IO.pipe
      begin
        Numo::Parallel.map([1, 2], in_processes: 2) { tell.write("x") && never.read }
      rescue Interrupt
        puts "interrupted"
      end
    RUBY
    assert_equal "interrupted\n", output
  end

  # Workers read the end of their pipes, even if a child of their parent lives, which had inherited
  # its ends.
  def test_workers_leave_when_their_parent_is_killed
    alive, said = IO.pipe
    never, open = IO.pipe
    parent = fork do
      items = [1]
      bystander = lambda do |*|
        fork { [said, open].each(&:close) && never.read }
      end
      Numo::Parallel.each(-> { items.shift || never.read }, in_processes: 2, start: bystander) do
        said.write("x")
      end
    end
    said.close
    assert_equal "x", alive.read(1)
    Process.kill(:KILL, parent)
    Process.wait(parent)
    assert_equal "", alive.read
    open.close
  end

  def test_calls_inside_of_calls_and_in_threads
    nested = map([1, 2]) do |n|
      Numo::Parallel.map([n, n + 1], in_processes: 2) { |m| Numo::Int32[m] }.map { |a| a[0] }
    end
    assert_equal [[1, 2], [2, 3]], nested
    threads = Array.new(3) do |t|
      Thread.new { map([t, t + 1]) { |n| Numo::Int32.new(50_000).fill(n) }.map { |a| a[7] } }
    end
    assert_equal [[0, 1], [1, 2], [2, 3]], threads.map(&:value)
  end
end
