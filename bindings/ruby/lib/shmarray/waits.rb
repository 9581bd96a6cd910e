# frozen_string_literal: true

module Shmarray
  # Repeated attempts, with a time limit, for {Pipe} and {Channel}.
  # @private
  module Waits
    # How long one wait of the extension takes. Between two, Ruby's other work is done.
    STEP_SECONDS = 0.05

    module_function

    # Calls the block until it returns a result, with the seconds that are left; nil for ever. The
    # block tries, and if there is nothing it waits for so long at most.
    def until(timeout, outcome)
      till = now + timeout if timeout && timeout != Float::INFINITY
      until (result = yield(left = till && [till - now, 0].max))
        raise TimeoutError, "#{outcome}: #{timeout} s" if left&.zero?
      end
      result
    end

    # The same for a block that waits without Ruby's lock, in steps. It first tries with the lock.
    def in_steps(timeout, outcome)
      yield(0) || self.until(timeout, outcome) do |left|
        yield [left || STEP_SECONDS, STEP_SECONDS].min
      end
    end

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
  private_constant :Waits
end
