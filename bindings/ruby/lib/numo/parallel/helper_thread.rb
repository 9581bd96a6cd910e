# frozen_string_literal: true

module Numo
  module Parallel
    # Looks after the workers of a call while the caller waits for a producer, which may itself wait
    # for what becomes of its other items.
    #
    # A thread that hears of each item would take longer than most items do. This one looks now and
    # then whether the caller is still where it was, and only then does its work.
    class HelperThread
      # Seconds that the caller may be away before the helper takes over.
      PAUSE = 0.005

      # To be made by the caller, who has the work until it goes {#away}. The block does a piece of
      # it, and comes back when the IO that it is given is readable; it returns whether the caller
      # need not wait any more.
      def initialize(&work)
        @work, @caller = work, Thread.current
        @lock = Mutex.new.lock
        @wake_up, @waker = IO.pipe
        @departures = 0
        @over = Class.new(Exception) # rubocop:disable Lint/InheritException
      end

      # Runs the caller's block, with a helper.
      def assist(&block)
        result = nil
        Interrupts.hold do
          @thread = Thread.new { Interrupts.let_in { watch } }
          result = Thread.handle_interrupt(Object => :immediate, @over => :never, &block)
        ensure
          @thread.kill.join
          [@wake_up, @waker].each(&:close)
        end
        result
      rescue @over
        result # the caller had come back already
      end

      # In that block: what this one returns, for which the caller waits; nil when it need not wait
      # any more.
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
