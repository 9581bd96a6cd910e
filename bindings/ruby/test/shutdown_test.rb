# frozen_string_literal: true

require_relative "helper"

# The end of an interpreter whose arrays are still in use: silent, with status 0, and nothing stays.
#
# The plain cases are in lifetime_test and numo_lifetime_test.
module Shutdown
  def test_exit_handlers_may_use_arrays_and_the_library
    self.class::HANDLERS.each { |name, code| assert_ends(self.class::SAID, code, name) }
  end

  def test_arrays_held_at_the_exit_are_given_back_quietly
    self.class::HOLDERS.each { |name, code| assert_ends(/\A\z/, code, name) }
  end

  def assert_ends(said, code, name = nil)
    assert_match said, ruby_says(self.class::PRELUDE + code), name
    assert_empty segments_in, name
  end
end

class ShutdownTest < SharedMemoryTest
  include Shutdown

  # A handler's typical calls of the library. It reports by an fd that it came to its end.
  PRELUDE = <<~'RUBY'
    require "shmarray"
    REPORT = IO.for_fd(1, autoclose: false)
    NUMBERS = (1..).each
    ARRAY = Shmarray::Array.create(:int64, [4, 5])

    def use(array = ARRAY)
      array[*[0] * array.shape.size] += 1
      made = Shmarray::Array.create(:int32, [50, 3], name: "late-#{NUMBERS.next}")
      again = Shmarray::Array.attach(made[1..].handle, readonly: true)
      made[1, 2] = 7
      other = Shmarray::Array.attach(array.handle)
      raise "not the same" unless again[0, 2] == 7 && other.shape == array.shape

      Shmarray.unlink(Shmarray.segments.find { |info| made.handle.include?(info[:segment]) }[:name])
      Shmarray.sweep
      REPORT.syswrite(".")
    end
  RUBY

  SAID = /\A\.+\z/ # some use twice
  HANDLERS = {
    "at_exit" => "at_exit { use }",
    "at_exit within at_exit" => "at_exit { at_exit { use }; use }",
    "at_exit before the library's" =>
      "at_exit { use }; 3.times { at_exit { Shmarray::Array.create(:int8, 1) } }",
    "END" => "END { use }",
    "a finalizer of an object" => "ObjectSpace.define_finalizer(Object.new, proc { use })",
    "a finalizer of an array" =>
      "ObjectSpace.define_finalizer(Shmarray::Array.create(:int8, 9), proc { use })",
    "a finalizer of a view" =>
      "$view = ARRAY[1]; ObjectSpace.define_finalizer($view, proc { use })",
    "a finalizer with an array of its own" => <<~RUBY,
      def finalizer(array) = proc { use(array) }
      $object = Object.new
      ObjectSpace.define_finalizer($object, finalizer(Shmarray::Array.create(:int32, [3, 3])))
    RUBY
    "an ensure of the main program" => "begin; exit; ensure; use; end",
    "an ensure of a thread" => <<~RUBY,
      ready = Queue.new
      Thread.new do
        ready << 1
        sleep
      ensure
        use
      end
      ready.pop
    RUBY
    "a signal's handler" => "trap(:TERM) { use }; at_exit { Process.kill(:TERM, $$); Thread.pass }",
    "a fiber's ensure, and at_exit" =>
      "Fiber.new { begin; Fiber.yield; ensure; use; end }.resume; at_exit { use }"
  }.freeze

  HOLDERS = {
    "a constant and a class variable" =>
      "A = ARRAY[1..]; class Object; @@object = ARRAY.transpose; end",
    "views of views" => "$views = (0...4).map { |at| ARRAY[at..].transpose[(0..-1) % 2] }",
    "cycles" => "20.times { a = [Shmarray::Array.create(:int8, 9)]; a << a; $cycle = a }",
    "a closure" => "$closure = (a = Shmarray::Array.create(:int8, 9); -> { a })",
    "a fiber that is never finished" =>
      "$fiber = Fiber.new { a = ARRAY[1]; Fiber.yield; a }.tap(&:resume)",
    "enumerators in the middle" =>
      "$enumerators = [ARRAY, ARRAY[1]].map { |array| array.to_enum.tap(&:next) }",
    "a thread's local" =>
      "Thread.current[:object] = ARRAY[1]; Thread.current.thread_variable_set(:a, ARRAY[2])",
    "a weak map" =>
      "$map = ObjectSpace::WeakMap.new; $map[ARRAY] = ARRAY[1]; $map[Object.new] = ARRAY",
    "an exception that was caught" =>
      "$caught = begin; ARRAY[99, 99]; rescue IndexError => error; error; end",
    "arrays by the hundred" =>
      "$all = Array.new(300) { |at| Shmarray::Array.create(:int8, 9, name: \"n\#{at}\") }",
    "an array that was unlinked" =>
      "A = Shmarray::Array.create(:int8, 9, name: 'a'); Shmarray.unlink('a')",
    "garbage" => "300.times { Shmarray::Array.create(:int8, 1000)[1..] }; GC.disable",
    "an instance variable of a singleton" =>
      "ARRAY.singleton_class.instance_variable_set(:@object, ARRAY[1])",
    "a memory view" => "require 'fiddle'; $view = Fiddle::MemoryView.new(ARRAY)",
    "a stressed collector" => "GC.stress = true; $view = ARRAY[1]"
  }.freeze

  # The main thread ends after two threads have made three rounds each.
  THREADS = {
    "make and drop" => "Shmarray::Array.create(:int8, 1000)",
    "attach and take views" => "Shmarray::Array.attach(ARRAY.handle)[1..].transpose",
    "read and write" => "ARRAY.to_bytes; ARRAY[0, 0] += 1",
    "list and sweep" => "Shmarray.segments; Shmarray.sweep",
    "collect" => "Shmarray::Array.create(:int8, 1000); GC.start"
  }.freeze

  THREADS.each do |what, code|
    define_method("test_threads_may_#{what.tr(" ", "_")}_to_the_end") do
      10.times do
        assert_ends(/\A\z/, <<~RUBY)
          rounds = Queue.new
          2.times { Thread.new { loop { #{code}; rounds << 1 } } }
          6.times { rounds.pop }
        RUBY
      end
    end
  end

  # Ruby 3.3 would show the line of an ArgumentError.
  def test_an_uncaught_exception_is_all_that_is_said
    output, status = ruby(<<~RUBY)
      #{PRELUDE}def fail_with(array) = raise(IndexError, "seven")
      fail_with(ARRAY[1])
    RUBY
    assert_equal 1, status.exitstatus
    raised = /-e:\d+:in .*fail_with'.*: seven \(IndexError\)\n/
    assert_match(/\A#{raised}\tfrom -e:\d+:in .*<main>'\n\z/, output)
    assert_empty segments_in
  end
end

# The same with Numo.
class NumoShutdownTest < NumoTest
  include Shutdown

  PRELUDE = <<~'RUBY'
    require "numo/shared"
    REPORT = IO.for_fd(1, autoclose: false)
    ARRAY = Numo::Shared.new(Numo::Int32, [4, 5]).seq
    TURNED = Numo::Shared.attach(Numo::Shared.handle(ARRAY.transpose))

    def use
      ARRAY.inplace + 1
      made = Numo::Shared.share(ARRAY[1, true])
      again = Numo::Shared.attach(Numo::Shared.handle(made), readonly: true)
      raise "not the same" unless again == ARRAY[1, true] && TURNED[0, 1] == ARRAY[1, 0]

      REPORT.syswrite(".")
    end
  RUBY

  SAID = /\A\.\z/
  HANDLERS = {
    "at_exit" => "at_exit { use }",
    "a finalizer of an object" => "ObjectSpace.define_finalizer(Object.new, proc { use })",
    "a finalizer of an array" =>
      "ObjectSpace.define_finalizer(Numo::Shared.new(Numo::Int8, 9), proc { use })",
    "a finalizer of a view" =>
      "$view = ARRAY[1, true]; ObjectSpace.define_finalizer($view, proc { use })",
    "a finalizer of what is attached" => "ObjectSpace.define_finalizer(TURNED, proc { use })"
  }.freeze

  HOLDERS = {
    "views of views" => "$views = (0...4).map { |at| ARRAY[at..-1, true].transpose.reverse }",
    "views in place" => "$views = [ARRAY.inplace, ARRAY[1, true].inplace, TURNED.inplace]",
    "a cycle" => "a = [ARRAY[1, true]]; a << a; $cycle = a",
    "an instance variable" => "ARRAY.instance_variable_set(:@object, ARRAY[1, true])",
    "an enumerator in the middle" => "$enumerator = ARRAY.to_enum.tap(&:next)",
    "threads in a loop" => <<~RUBY,
      q = Queue.new
      2.times { Thread.new { loop { TURNED.sum; ARRAY[1, true].dup; q << 1 } } }
      6.times { q.pop }
    RUBY
    "garbage" => "300.times { Numo::Shared.new(Numo::Int8, 1000)[1..-1] }",
    "a compacted heap" => <<~RUBY
      $views = Array.new(50) { ARRAY[1, true] }
      GC.compact if GC.respond_to?(:compact)
    RUBY
  }.freeze
end
