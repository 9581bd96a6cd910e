# frozen_string_literal: true

require_relative "helper"

# The shared memory of unreferenced arrays, in a process with the default pool.
module Garbage
  # Runs in another Ruby: `used` is the size of its directory's segments in MB.
  PROLOGUE = <<~RUBY
    def used
      files = Dir.glob(File.join(ENV.fetch("SHMARRAY_DIR"), "shmarray-*")).grep_v(/registry/)
      files.sum { |file| blocks(file) * 512 } >> 20
    end

    def blocks(file)
      File.stat(file).blocks
    rescue Errno::ENOENT
      0 # a collection that ran meanwhile has trimmed the pool
    end
  RUBY

  # Count and size of arrays in MB, and the limits for live and for dropped arrays, in MB.
  LOOPS = { [5000, 1] => 100, [200, 20] => 160, [50, 100] => 500 }.freeze

  LOOPS.each do |(count, size), most|
    define_method("test_#{count}_arrays_of_#{size}_MB_that_are_dropped_take_a_few") do
      assert_operator say(<<~RUBY).first, :<=, most
        puts Array.new(#{count}) { #{make(size)}.fill(1) && used }.max
      RUBY
    end

    define_method("test_a_collection_gives_#{size}_MB_back") do
      used, after = say(<<~RUBY)
        away = Fiber.new { 3.times { #{make(size)}.fill(1) } }.resume
        puts used, GC.start.then { used }
      RUBY
      assert_operator used, :>=, 3 * size
      assert_operator after, :<, size
    end
  end

  # A finalizer may start a collection, and Ruby finalizes nothing else until it returns.
  def test_collections_within_a_finalizer
    bytes, = say(<<~RUBY)
      again = proc { 3.times { GC.start; Array.new(20_000) { +"x" } } }
      20.times { ObjectSpace.define_finalizer(Object.new, again); GC.start }
      puts #{make(1)}.fill(3).to_a.flatten.count(3)
    RUBY
    assert_equal 1 << 20, bytes
  end

  # An array that is read or written now and then stays.
  def test_referenced_arrays_are_kept
    bytes, = say(<<~RUBY)
      one = #{make(1)}.fill(3)
      20.times { GC.start }
      puts one.to_a.flatten.count(3)
    RUBY
    assert_equal 1 << 20, bytes
  end

  private

  # The whole numbers that a program prints.
  def say(program)
    ruby_says("#{requires}\n#{PROLOGUE}\n#{program}", env: { "SHMARRAY_POOL_BYTES" => nil })
      .lines.map { |line| Integer(line) }
  end
end

class GarbageTest < SharedMemoryTest
  include Garbage

  def requires = 'require "shmarray"'
  def make(size) = "Shmarray::Array.create(:uint8, #{size} << 20)"

  # A process that waits longer has kept its memory.
  WATCHDOG = 120

  # Without GC.start: pooled memory that is not used is freed by a later collection, a minor one,
  # too: a program that drops what it makes has hardly any others.
  def test_unused_pool_memory_is_released_after_a_while
    assert_operator say(<<~RUBY).first, :<, 40
      Fiber.new { #{make(40)}.fill(1) && nil }.resume
      raise "there is none" if used < 40
      now = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) }
      last = now.() + #{WATCHDOG}
      until used < 40
        String.new(capacity: 1 << 20)
        IO.select(nil, nil, nil, 0.02) # time passes without work
        abort "waited #{WATCHDOG} s for unused memory to be freed" if now.() > last
      end
      puts used
    RUBY
  end
end

class NumoGarbageTest < NumoTest
  include Garbage

  def requires = 'require "numo/shared"'
  def make(size) = "Numo::Shared.new(Numo::UInt8, [#{size} << 20])"
end
