# frozen_string_literal: true

module Shmarray
  # Repeated attempts, with a time limit, for {Pipe} and {Channel}.
  # @private
  module Waits
    # How long one wait of the extension takes. Between two, Ruby's other work is done.
    STEP_SECONDS = 0.05
    # IO#wait_readable takes no Float::INFINITY, and Thread#join does. Longer than this is for ever.
    LONGEST_SECONDS = 1e9

    module_function

    # Returns a timeout in seconds, from 0 on; nil for ever. It is taken as Thread#join takes it.
    def limit(timeout)
      return if timeout.nil?
      raise TypeError, "timeout: #{timeout.inspect} is not a number" unless timeout.is_a?(Numeric)

      seconds = timeout.to_f
      raise ArgumentError, "timeout: #{timeout} is not a number" if seconds.nan?

      [seconds, 0].max if seconds < LONGEST_SECONDS
    end

    # Calls the block until it returns a result, with the seconds that are left; nil for ever. The
    # block tries, and if there is nothing it waits for so long at most. +channel+ is that of a
    # sender, whose error says who has the slots.
    def until(timeout, outcome, channel = nil)
      seconds = limit(timeout)
      till = now + seconds if seconds
      until (result = yield(left = till && [till - now, 0].max))
        next unless left&.zero?

        # One that asks again and again need not wait for the reason.
        reason = channel.__send__(:who_has_slots) if channel && seconds.positive?
        raise TimeoutError, ["#{outcome}: #{timeout} s", *reason].join("; ")
      end
      result
    end

    # The same for a block that waits without Ruby's lock, in steps. It first tries with the lock.
    # With a fiber scheduler it then runs in a thread, so that other fibers run meanwhile.
    def in_steps(timeout, outcome, channel = nil, &wait)
      limit(timeout)
      yield(0) || self.until(timeout, outcome, channel) do |left|
        scheduled? ? aside(left, &wait) : yield(step(left))
      end
    end

    # Waits in a thread, for so many seconds at most. Returns nil if there is nothing.
    def aside(seconds)
      till = seconds && now + seconds
      thread = Thread.new do
        until (result = yield(step(left = till && [till - now, 0].max)))
          break if left&.zero?
        end
        result
      end
      thread.report_on_exception = false # the fiber raises it
      thread.value
    ensure
      thread&.kill # if an exception ends the wait
    end

    def step(left)
      left ? [left, STEP_SECONDS].min : STEP_SECONDS
    end

    # Whether a fiber scheduler runs other fibers while this one waits.
    def scheduled?
      Fiber.respond_to?(:current_scheduler) && Fiber.current_scheduler
    end

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
  private_constant :Waits
end
