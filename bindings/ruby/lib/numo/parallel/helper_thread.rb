# frozen_string_literal: true

module Numo
  module Parallel
    # Attends to the workers of a call while the caller waits for a producer, which may itself wait
    # for the results of its other items.
    #
    # To pass each item to a thread would take longer than most items do. This thread checks now and
    # then whether the caller is still in the same wait, and attends to the workers only then.
    class HelperThread
      # Seconds that the caller may be away before the helper takes over.
      PAUSE = 0.005

      # Is called by the caller, which attends to the workers itself except while it is {#away}. The
      # block attends to them once; it returns when the given IO is readable. Its value says whether
      # the caller need not wait any more.
      def initialize(&work)
        @work = work
        @caller = Thread.current
        @lock = Mutex.new.lock
        @departures = 0
        @over = Class.new(Exception) # rubocop:disable Lint/InheritException
      end

      # Runs the caller's block, with a helper.
      def assist(&block)
        result = nil
        Interrupts.hold do
          @wake_up, @waker = IO.pipe
          @thread = Thread.new { Interrupts.let_in { watch } }
          result = Thread.handle_interrupt(Object => :immediate, @over => :never, &block)
        ensure
          @thread&.kill&.join
          [@wake_up, @waker].each { |io| io&.close }
        end
        result
      rescue @over
        result # the caller had come back already
      end

      # Waits in a block for which the helper takes over. Returns the block's value; nil if the
      # caller need not wait any more.
      def away(&block)
        leave
        Thread.handle_interrupt(@over => :immediate, &block)
      rescue @over
        nil
      ensure
        @is_away = false
        @waker.write_nonblock("x", exception: false) if @is_at_work
        @lock.lock
      end

      private

      def leave
        @departures += 1
        @is_away = true
        @lock.unlock
      end

      def watch
        seen = nil
        loop do
          sleep PAUSE
          @lock.synchronize { work } if @is_away && seen == @departures
          seen = @departures
        end
      end

      def work
        @is_at_work = true
        @wake_up.read_nonblock(64, exception: false) until !@is_away || @work.call(@wake_up)
        call_back if @is_away && @called_back != @departures
      ensure
        @is_at_work = false
      end

      def call_back
        @called_back = @departures
        @caller.raise(@over)
      end
    end
    private_constant :HelperThread
  end
end
