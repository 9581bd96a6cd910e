# frozen_string_literal: true

require_relative "helper"

# Under GC stress and compaction, with views that outlive their base, and across forks.
class NumoLifetimeTest < NumoTest
  def test_a_segment_goes_with_its_last_view
    away do
      views = away do
        a = Shared.new(Numo::Int32, [4, 6]).seq
        b = Shared.attach(Shared.handle(a.transpose))
        [a[1, true], a.reverse.transpose, b[2..3, true], b.inplace, a[[0, 2], true]]
      end
      until views.empty?
        collect
        assert_equal 1, segments_in.size
        assert_includes [0, 6, 2, 23], views.last.to_a.flatten.first
        views.pop
      end
    end
    collect
    assert_empty segments_in
  end

  def test_views_outlive_their_base_under_gc_stress
    CLASSES.each do |type|
      expected = type.new(4, 6).seq
      handle = nil
      whole = Shared.share(expected)
      GC.stress = true
      view = away { Shared.attach(Shared.handle(whole))[1..2, true].transpose }
      strided = away { Shared.attach(Shared.handle(whole.transpose))[(0..-1) % 2, true].reverse }
      handle = Shared.handle(view)
      copy = Shared.share(strided)
      GC.stress = false
      assert_equal expected[1..2, true].transpose, view
      assert_equal expected.transpose[(0..-1) % 2, true].reverse, copy
      assert_equal view, Shared.attach(handle)
    ensure
      GC.stress = false
    end
  end

  def test_compaction_moves_no_element
    skip "this Ruby cannot compact" unless GC.respond_to?(:compact)
    views = ::Array.new(200) do |at|
      a = Shared.new(Numo::Int32, [3, 4]).store(at)
      b = Shared.attach(Shared.handle(a.transpose))
      ::Array.new(50) { +"garbage" }
      at.even? ? a[1, true] : b[true, 1..2]
    end
    compact_everything
    3.times { GC.compact }
    views.each_with_index do |view, at|
      view.inplace + 1
      assert_equal [at + 1], view.to_a.flatten.uniq
      assert_equal view, Shared.attach(Shared.handle(view))
    end
  end

  def compact_everything
    return GC.compact unless GC.respond_to?(:verify_compaction_references)

    GC.verify_compaction_references(**double)
  end

  # Ruby 3.2 renamed the option.
  def double
    { (RUBY_VERSION < "3.2" ? :double_heap : :expand_heap) => true, toward: :empty }
  end

  def test_the_collector_knows_how_much_the_arrays_hold
    most = 0
    200.times do
      Shared.new(Numo::UInt8, 4 << 20)
      most = [most, segments_in.size].max
    end
    assert_operator most, :<, 50
    require "objspace"
    assert_operator ObjectSpace.memsize_of(Shared.new(Numo::UInt8, 20 << 20)), :>, 20 << 20
  end

  def test_grandchildren_and_strangers_hold_it_as_well
    a = Shared.new(Numo::Int32, [2, 3])
    output = ruby_says(<<~RUBY, Shared.handle(a[1, true]))
      require "numo/shared"
      a = Numo::Shared.attach(ARGV[0])
      pid = fork { fork { a[0] = 7 }; Process.wait; a[1] = 8 }
      Process.wait(pid)
      Marshal.load(Marshal.dump(a))[2] = 99
      print a.to_a
    RUBY
    assert_equal "[7, 8, 0]", output
    assert_equal [[0, 0, 0], [7, 8, 0]], a.to_a
  end

  # Each child gets its view by a handle that is made after it was started, and returns an array of
  # its own; then every second child is killed.
  def test_handles_go_across_eight_forked_children
    children = ::Array.new(8) do |at|
      start_child { |reader, writer| work_on_handles(at, reader, writer) }
    end
    a = Shared.new(Numo::Int64, [8, 4, 1000])
    views = ::Array.new(8) do |at|
      at.even? ? a[at, true, true].transpose : a[at, true, (0..-1) % 2].reverse
    end
    children.each { |_, _, writer| writer.puts(*views.map { |view| Shared.handle(view) }) }
    results = children.map { |_, reader, _| Shared.attach(reader.gets.chomp) }
    children.each { |_, _, writer| writer.puts("received") }
    children.each { |pid, *| Process.wait(pid) }
    sweep_after_deaths
    8.times do |at|
      assert_equal [200], views[at].to_a.flatten.uniq
      assert_equal at.even? ? 800_000 : 400_000, a[at, true, true].sum
      assert_equal views[at] * at, results[at]
    end
    assert_equal [Process.pid], Shared.segments.flat_map { |facts| facts[:holders] }.uniq
  end

  # A child, its output, and its input.
  def start_child
    child_reader, parent_writer = IO.pipe
    parent_reader, child_writer = IO.pipe
    pid = fork do
      [parent_writer, parent_reader].each(&:close)
      yield child_reader, child_writer
    end
    [child_reader, child_writer].each(&:close)
    [pid, parent_reader, parent_writer]
  end

  def work_on_handles(at, reader, writer)
    views = ::Array.new(8) { Shared.attach(reader.gets.chomp) }
    200.times { views[at].inplace + 1 }
    writer.puts Shared.handle_to_send(Shared.share(views[at] * at))
    reader.gets # until the parent has it
    Process.kill(:KILL, Process.pid) if at.odd?
  end

  def test_the_end_of_an_interpreter_with_live_arrays_is_quiet
    output = ruby_says(<<~RUBY)
      require "numo/shared"
      A = Numo::Shared.new(Numo::Int32, [100, 100])
      other = Numo::Shared.attach(Numo::Shared.handle(A.transpose))
      $views = [A.transpose, other, A.reverse.inplace]
      at_exit { $views.each { |view| view[0, 0] = 5 } }
      ObjectSpace.define_finalizer(Object.new, proc { $views[1].sum })
      Thread.new { loop { $views[2].sum } }
    RUBY
    assert_empty output
    assert_empty segments_in
  end

  # Other threads run while a large array is copied, and cannot free its memory.
  def test_an_array_that_is_being_copied_cannot_be_freed
    refusals = Array.new(50) do |n|
      source = Numo::UInt8.new(32 << 20).fill(n)
      copier = Thread.new { Numo::Shared.share(source[true]) } # a view: what is kept is its base
      Thread.pass until Numo::Shared.send(:copied?, source) || !copier.alive?
      refused = refusal { source.free }
      shared = copier.value
      assert_equal [n, n], [shared[0], shared[-1]]
      break [refused] if refused # the copy was over before, now and then
    end
    assert_kind_of ThreadError, refusals.compact.first
  end

  def refusal
    yield
    nil
  rescue ThreadError => error
    error
  end
end
