# frozen_string_literal: true

module Numo
  module Parallel
    # Threads of this process that do one thing together.
    class Threads
      def initialize
        @threads = []
      end

      # Calls the block in so many threads, with their numbers. Returns what it returned there.
      # Leaves none behind, whatever one of them raises or interrupts the caller.
      def values(count, &block)
        Interrupts.undisturbed do
          count.times { |number| @threads << Thread.new { work(number, &block) } }
          Interrupts.let_in { @threads.map(&:value) }
        ensure
          @threads.each(&:kill).each { |thread| wait_for(thread) }
        end
      end

      def kill_others
        @threads.each { |thread| thread.kill unless thread == Thread.current }
      end

      private

      # An exception is the caller's to raise.
      def work(number)
        Thread.current.report_on_exception = false
        Interrupts.let_in { yield number }
      end

      # What it raised has been raised in the caller.
      def wait_for(thread)
        thread.join
      rescue Exception # rubocop:disable Lint/RescueException
        nil
      end
    end
    private_constant :Threads
  end
end
