# frozen_string_literal: true

# The base of all tests: each runs in a process and a SHMARRAY_DIR of its own.
#
# After a test its process ends in the ordinary way. Anything that it left in its directory is a
# failure. So is a crash of the process, of that test alone.

require "minitest/autorun"
require "fileutils"
require "json"
require "open3"
require "rbconfig"
require "tmpdir"
require_relative "which"

NUMO = Which::NUMO
puts Which.line

# Leaves each outcome in the folder that the runner of the suites names: ci/checks/runner/junit.py.
class Outcomes < Minitest::AbstractReporter
  def initialize(folder)
    super()
    @path = File.join(folder, "cases")
  end

  def record(result)
    outcome = result.passed? ? "passed" : "failed"
    outcome = "skipped: #{result.failure.message.split.join(" ")}" if result.skipped?
    File.write(@path, "#{outcome}\t#{result.klass}: #{result.name}\n", mode: "a")
  end
end

if (folder = ENV.delete("SHMARRAY_JUNIT"))
  Minitest.define_singleton_method(:plugin_outcomes_init) { |_| reporter << Outcomes.new(folder) }
  Minitest.extensions << "outcomes"
end

class SharedMemoryTest < Minitest::Test
  # What the documentation and the signatures are of.
  PUBLIC_MODULES = [
    Shmarray, Shmarray::Array, Shmarray::NpzFile, Shmarray::List, Shmarray::Dict, Shmarray::Pipe,
    Shmarray::Message,
    *(if NUMO
        [Numo::Shared, Numo::Shared::NpzFile, Numo::Shared::Reference, Numo::Parallel,
         Numo::Parallel::Break]
      end)
  ].freeze

  def run
    result = nil
    Dir.mktmpdir("shmarray-ruby-test-", "/dev/shm") do |dir|
      result = run_in_child(dir)
      left = segments_in(dir)
      result.failures << failed("left behind: #{left.join(", ")}") unless left.empty?
    end
    result
  end

  # The arrays, without pooled memory and the remains of dead processes.
  def listed_arrays
    Shmarray.segments.select { |facts| facts[:kind] == :array }
  end

  # The files of segments and names, without the registry.
  def segments_in(dir = ENV.fetch("SHMARRAY_DIR"))
    Dir.children(dir).grep(/\Ashmarray-/).grep_v(/\Ashmarray-registry-/)
  end

  # The words that start another Ruby. It has no RubyGems, without which it starts in half the time,
  # and finds what this one has found.
  RUBY = [RbConfig.ruby, "-W0", "--disable-gems"].freeze

  # Runs another Ruby, which shares only its environment with this one.
  def ruby(script, *arguments, env: {})
    paths = $LOAD_PATH.flat_map { |path| ["-I", path] }
    output, status = Open3.capture2e(env, *RUBY, *paths, "-e", script, *arguments)
    [output, status]
  end

  # Runs another Ruby, which must succeed. Returns what it prints.
  def ruby_says(script, *arguments, env: {})
    output, status = ruby(script, *arguments, env: env)
    assert status.success?, output
    output
  end

  # Asserts that the block raises this error, in these words.
  def assert_refused(type, words, what = nil, &block)
    assert_match words, assert_raises(type, &block).message, what
  end

  # Runs a block in a child, which must succeed. Returns the block's result.
  def in_child(&block)
    reader, writer = IO.pipe
    pid = fork do
      reader.close
      writer.write(Marshal.dump(block.call))
      writer.close
    end
    writer.close
    text = reader.read
    assert Process.wait2(pid)[1].success?, "the child failed"
    Marshal.load(text)
  end

  # Makes SHMARRAY_DIR a small file system ("size=1m,nr_inodes=20") for a block that runs in a
  # child, where a bus error would end only that. Nothing may stay there.
  def in_small_tmpfs(options)
    dir = Dir.mktmpdir("small-", ENV.fetch("SHMARRAY_DIR"))
    _, said, status = Open3.capture3("mount", "-t", "tmpfs", "-o", options, "tmpfs", dir)
    skip "a small file system cannot be mounted here: #{said.strip}" unless status.success?
    begin
      in_child { away { yield dir.tap { ENV["SHMARRAY_DIR"] = dir } } && nil }
      assert_empty segments_in(dir)
    ensure
      system("umount", "--lazy", dir) # a registry is mapped for good
    end
  ensure
    Dir.rmdir(dir)
  end

  # Starts another Ruby, with which the test exchanges lines.
  def start_ruby(script, *arguments)
    paths = $LOAD_PATH.flat_map { |path| ["-I", path] }
    command = [*RUBY, *paths, "-e", script, *arguments, { err: [:child, :out] }]
    IO.popen(command, "r+").tap { |io| io.sync = true }
  end

  # Makes orphaned descendants children of this process, so that it can wait for them.
  def adopt_orphans
    require "fiddle"
    arguments = [Fiddle::TYPE_INT] + [Fiddle::TYPE_LONG] * 4
    prctl = Fiddle::Function.new(Fiddle.dlopen(nil)["prctl"], arguments, Fiddle::TYPE_INT)
    assert_equal 0, prctl.call(36, 1, 0, 0, 0) # PR_SET_CHILD_SUBREAPER
  end

  # The ways in which a process ends, by name.
  ENDINGS = {
    "exit" => -> { exit }, "exit!" => -> { exit!(0) },
    "killed" => -> { Process.kill(:KILL, Process.pid) }
  }.freeze

  # An ordinary end leaves nothing; after another one a sweep frees everything.
  def assert_nothing_left(ending)
    sweep_after_deaths unless ending == "exit"
    assert_empty segments_in, ending
  end

  # Sweeps until dead processes hold nothing. If some process reads a dead one's files in /proc, its
  # memory lives on for that moment, and with it the lock. A forked child that died before it could
  # register its pid is listed with its parent's.
  def sweep_after_deaths
    loop do
      Shmarray.sweep
      holders = Shmarray.segments.map { |segment| segment[:holders] }
      live = holders.flatten.all? { |pid| File.exist?("/proc/#{pid}") }
      break if live && holders.all? { |pids| pids.uniq == pids }
    end
  end

  # Returns whether a Numo array came through shared memory, or is in it.
  def came_shared?(array)
    Numo::Shared.send(:guarded?, array)
  end

  # Frees everything unreachable: nothing above this frame may refer to it.
  def collect
    4.times { GC.start }
  end

  # Runs the block in a frame of its own, so that nothing of it stays on the stack below.
  def away(&block)
    Fiber.new(&block).resume
  end

  private

  # The pipe ends when the last descendant has ended, and not when its Ruby closes files, which may
  # come before it frees arrays.
  def run_in_child(dir)
    reader, writer = IO.pipe
    pid = fork do
      reader.close
      writer.autoclose = false
      ENV["SHMARRAY_DIR"] = dir
      ENV["SHMARRAY_POOL_BYTES"] = "0" # each file there tells of an array
      result = Minitest::Test.instance_method(:run).bind_call(self)
      writer.write(dumped(result))
      writer.close
      exit # in the ordinary way, with finalizers
    end
    writer.close
    text = reader.read
    judge(Process.wait2(pid)[1], text)
  end

  # A failure may hold objects that cannot be dumped; its text always can.
  def dumped(result)
    result.failures.map! do |failure|
      next failure if failure.is_a?(Minitest::Skip)

      failed(failure.message, failure.backtrace)
    end
    Marshal.dump(result)
  end

  # A result without a time of its own.
  def not_run
    self.time = 0
    Minitest::Result.from(self)
  end

  def failed(message, backtrace = nil)
    Minitest::Assertion.new(message).tap { |failure| failure.set_backtrace(backtrace || []) }
  end

  def judge(status, text)
    result = text.empty? ? not_run : Marshal.load(text)
    unless status.success? && !text.empty?
      result.failures << failed("the test's process ended with #{status.inspect}")
    end
    result
  end
end

# Tests that need a Numo gem.
class NumoTest < SharedMemoryTest
  # Reports the reason once for all of them.
  def run
    return super if NUMO

    skipped = Minitest::Skip.new("no Numo gem is installed").tap do |skip|
      skip.set_backtrace(caller)
    end
    not_run.tap { |result| result.failures << skipped }
  end

  INTEGERS = %i[Int8 Int16 Int32 Int64 UInt8 UInt16 UInt32 UInt64].freeze
  FLOATS = %i[SFloat DFloat].freeze
  COMPLEXES = %i[SComplex DComplex].freeze
  Shared = NUMO && Numo::Shared
  CLASSES = NUMO ? (INTEGERS + FLOATS + COMPLEXES).map { |name| Numo.const_get(name) } : []

  # The bytes that any other process would see.
  def bytes_of(array)
    Shmarray::Array.attach(Numo::Shared.handle(array), readonly: true).to_bytes
  end
end
