# frozen_string_literal: true

require_relative "npy_helper"

# Loading and saving beside other Ruby threads, which run meanwhile, may change what was given, and
# may end the work.
class NpyThreadsTest < SharedMemoryTest
  include NpyFiles

  # An IO that a thread waits in until it is told to go on.
  Gate = Struct.new(:inside, :go_on) do
    def write(_)
      inside << true
      go_on.pop
    end
  end

  def test_an_io_is_written_to_as_by_ruby_and_others_run_meanwhile
    gate = Gate.new(Queue.new, Queue.new)
    saver = Thread.new { Shmarray.save_npy(gate, array) }
    gate.inside.pop
    2.times { gate.go_on << true }
    assert_nil saver.value
    killed = Thread.new { Shmarray.save_npz(gate, array, compressed: true) }
    gate.inside.pop
    assert_nil killed.kill.value
  end

  # A thread that is asleep or dead has released the lock.
  def released(work)
    thread = Thread.new(&work).tap { |each| each.report_on_exception = false }
    Thread.pass until thread.stop? || !thread.alive?
    thread
  end

  # Returns whether an exception ended the work. It was over before, now and then.
  def ended_by_an_exception?(work)
    50.times.any? do
      worker = released(work)
      worker.raise(ZeroDivisionError)
      worker.value
      false
    rescue ZeroDivisionError
      true
    end
  end

  def test_an_exception_ends_a_batch
    texts = [saved(array)] * 20_000
    load = -> { Shmarray.load_batch(bytes: texts, threads: 1) }
    assert ended_by_an_exception?(load)
    released(load).kill.join
    collect
    assert_empty segments_in
  end

  def test_an_exception_ends_the_reading_of_an_archive
    text = saved(array)
    archive = zipped(Array.new(20_000) { |n| ["#{n}.npy", text] }.to_h)
    npz = Shmarray.load_npz(bytes: archive, threads: 2)
    assert ended_by_an_exception?(-> { npz.to_h })
    assert_equal 20_000, npz.size
    collect
    assert_empty segments_in
  end

  def test_an_exception_ends_a_save_and_leaves_no_file
    a = array("|u1", [24, 1 << 20])
    [-> { Shmarray.save_npz(path("a"), a, compressed: true, threads: 1) },
     -> { Shmarray.save_npz(path("a"), a) }, -> { Shmarray.save_npy(path("a"), a) }].each do |save|
      assert ended_by_an_exception?(save)
      there = Dir.children(ENV.fetch("SHMARRAY_DIR")).grep_v(/\Ashmarray-/)
      assert_empty there - ["a"] # of an attempt that was over before
    end
  end

  def test_a_signal_handler_runs_and_the_work_goes_on
    script = <<~RUBY
      require "shmarray"
      require "stringio"
      io = StringIO.new("".b)
      Shmarray.save_npy(io, Shmarray::Array.create(:int8, 4).fill(3))
      texts = [io.string] * 50_000
      trap(:USR1) { print "handled " }
      fork { Process.kill(:USR1, Process.ppid) }
      print Shmarray.load_batch(bytes: texts, threads: 1).sum
      Process.wait
    RUBY
    output, status = ruby(script)
    assert_equal ["600000", true], [output.sub("handled ", ""), status.success?]
    assert_match(/handled/, output)
  end

  # The String is changed in every way that Ruby has, while its bytes are read without the lock.
  CHANGES = [:clear.to_proc, ->(text) { text.replace("x") }, ->(text) { text << "x" * 9000 },
             ->(text) { text.setbyte(0, 0) }, ->(text) { text.force_encoding("UTF-8") },
             ->(text) { text.slice!(0, 100) }].freeze

  def test_a_string_may_be_changed_while_it_is_read
    a = array("|u1", [8 << 20])
    good = saved(a)
    CHANGES.each do |change|
      text = good.dup
      text << "" # its own memory
      loader = released(-> { Shmarray.load_npy(bytes: text) })
      change.call(text)
      GC.start
      assert_equal a, loader.value
    end
  end

  def test_an_archive_may_be_closed_while_it_is_read
    text = zipped(*([array("|u1", [1 << 20])] * 8), compressed: true)
    loaders = Array.new(4) do
      npz = Shmarray.load_npz(bytes: text.dup)
      released(-> { npz.to_h }).tap { npz.close }
    end
    GC.start
    loaders.each do |loader|
      assert_equal 8, loader.value.size
    rescue IOError => error # it was closed before the thread came to it
      assert_match(/closed/, error.message)
    end
  end

  def test_a_numo_array_stays_in_place_while_it_is_saved
    skip "no Numo gem is installed" unless NUMO
    gate = Gate.new(Queue.new, Queue.new)
    a = Numo::UInt8.new(3 << 20).fill(1)
    saver = Thread.new { Shmarray.save_npy(gate, a[true]) } # a view: what is kept is its base
    gate.inside.pop
    assert_refused(ThreadError, /copying/) { a.free }
    10.times { gate.go_on << true }
    assert_nil saver.value
    a.free
  end

  def test_a_fork_beside_a_load_leaves_both_processes_well
    text = saved(array("|u1", [8 << 20]))
    loader = released(-> { 5.times.map { Shmarray.load_npy(bytes: text) } })
    sizes = in_child { Shmarray.load_npy(bytes: text).size }
    assert_equal [8 << 20, 5], [sizes, loader.value.size]
  end
end
