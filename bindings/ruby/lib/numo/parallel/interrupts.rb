# frozen_string_literal: true

module Numo
  module Parallel
    # Ctrl-C as an exception that can wait.
    #
    # Thread.handle_interrupt holds back what other threads raise, but Ruby raises what a signal
    # handler does at once, wherever the main thread is: also between a fork and the line that
    # remembers the child.
    module Interrupts
      @is_on = false

      class << self
        # In the block, exceptions of other threads and of SIGINT wait until they are let in.
        def undisturbed(&block)
          hold { deferrable(&block) }
        end

        # What SIGINT does in the main thread can wait while the block runs.
        def deferrable
          return yield if @is_on || Thread.current != Thread.main

          begin
            @is_on = true
            turn_on
            yield
          ensure
            turn_off
            @is_on = false
          end
        end

        # Runs the block, and what was held back before it.
        def let_in(&block)
          Thread.handle_interrupt(Object => :immediate, &block)
        end

        # Runs the block, and holds back what comes meanwhile.
        def hold(&block)
          Thread.handle_interrupt(Object => :never, &block)
        end

        # Forks, in a block of {hold}. Ruby 3.1 forgets what was held back when it forks; newer ones
        # do not.
        def fork(&block)
          @error = nil
          let_in { nil }
          pid = Process.fork(&block)
          was_forgotten = @error && Thread.current == Thread.main && !Thread.pending_interrupt?
          Thread.main.raise(@error) if was_forgotten
          pid
        end

        # In a worker SIGINT does what it does in the program, not what it does for a call.
        def be_child
          turn_off if @is_on
          @is_on, @handler = false
          exit!(false) if Thread.pending_interrupt?
        end

        # From now on SIGINT ends the worker without a word, unless the program has a handler.
        def be_quiet
          was = trap("INT", "SYSTEM_DEFAULT")
          trap("INT", was) unless was == "DEFAULT"
        end

        private

        def turn_on
          @was, @came_early = nil, false
          @handler = proc { |signal| @was ? act(signal) : @came_early = true }
          @was = trap("INT", @handler) || "DEFAULT"
          act(Signal.list["INT"]) if @came_early
        end

        # As the handler that was there.
        def act(signal)
          case @was
          when "IGNORE", "SIG_IGN", "" then nil
          when "SYSTEM_DEFAULT", "SIG_DFL" then die
          when "EXIT" then throw_in(SystemExit.new)
          when "DEFAULT" then throw_in(Interrupt.new(""))
          else call(signal)
          end
        end

        def throw_in(error)
          @error = error
          Thread.main.raise(error)
        end

        def call(signal)
          @was.call(signal)
        rescue Exception => error # rubocop:disable Lint/RescueException
          throw_in(error)
        end

        def die
          trap("INT", "SYSTEM_DEFAULT")
          Process.kill(:INT, Process.pid)
        end

        # The program may have set another one meanwhile.
        def turn_off
          now = trap("INT", @was || "DEFAULT")
          trap("INT", now) unless now == @handler
        end
      end
    end
    private_constant :Interrupts
  end
end
