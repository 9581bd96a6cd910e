# frozen_string_literal: true

module Numo
  module Parallel
    # Threads of this process that run one block together.
    class Threads
      def initialize
        @threads = []
      end

      # Calls the block in so many threads, with their numbers. Returns its values. Leaves no thread
      # behind, even if one of them raises or the caller is interrupted.
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

      # Runs the block. The caller raises its exceptions, so the thread does not report them.
      def work(number)
        Thread.current.report_on_exception = false
        Interrupts.let_in { yield number }
      end

      # Waits for a thread. The caller has raised its exception already.
      def wait_for(thread)
        thread.join
      rescue Exception # rubocop:disable Lint/RescueException
        nil
      end
    end
    private_constant :Threads
  end
end
