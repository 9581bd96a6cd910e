# frozen_string_literal: true

module Numo
  module Parallel
    # Makes Ctrl-C an exception that can be deferred.
    #
    # Thread.handle_interrupt defers exceptions that other threads raise. But Ruby raises the
    # exception of a signal handler at once, wherever the main thread is: also between a fork and
    # the line that stores the child's pid.
    module Interrupts
      @is_on = false
      # The exit code of an interrupted worker, as a shell would give it.
      EXIT_CODE = 128 + Signal.list["INT"]
      # The most seconds by which an interrupt reaches this process later than its workers.
      LATER = 2

      class << self
        # Runs the block; exceptions of other threads and of SIGINT are deferred until they are let
        # in.
        def undisturbed(&block)
          hold { deferrable(&block) }
        end

        # Runs the block; the exception of SIGINT in the main thread can be deferred meanwhile.
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

        # Raises what was deferred, and runs the block with nothing deferred.
        def let_in(&block)
          Thread.handle_interrupt(Object => :immediate, &block)
        end

        # Runs the block, and defers all exceptions meanwhile.
        def hold(&block)
          Thread.handle_interrupt(Object => :never, &block)
        end

        # Forks, in a block of {hold}. Ruby 3.1 forgets deferred exceptions in a fork; newer
        # versions do not.
        def fork(&block)
          @error = nil
          let_in { nil }
          pid = Process.fork(&block)
          was_forgotten = @error && Thread.current == Thread.main && !Thread.pending_interrupt?
          Thread.main.raise(@error) if was_forgotten
          pid
        end

        # Restores, in a worker, the program's own handling of SIGINT in place of the call's.
        def be_child
          turn_off if @is_on
          @is_on = false
          @handler = nil
          exit!(EXIT_CODE) if Thread.pending_interrupt?
        end

        # Waits for the interrupt of this process, after one of its workers was interrupted. Ctrl-C
        # reaches all processes of a terminal, one after the other.
        def await
          sleep(LATER) if Thread.current == Thread.main
        end

        # Makes SIGINT end the worker silently from now on, unless the program has a handler.
        #
        # In Ruby 3.3 a child that is forked while its parent gets SIGINT may inherit the signal and
        # find it only at its end, where the default handler's Interrupt would be printed.
        def exit_silently
          was = trap("INT") { exit!(EXIT_CODE) }
          trap("INT", was) unless was == "DEFAULT"
        end

        private

        def turn_on
          @was = nil
          @came_early = false
          @handler = proc { |signal| @was ? act(signal) : @came_early = true }
          @was = trap("INT", @handler) || "DEFAULT"
          act(Signal.list["INT"]) if @came_early
        end

        # Acts as the previous handler would.
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

        # Restores the previous handler, unless the program has set another one meanwhile.
        def turn_off
          now = trap("INT", @was || "DEFAULT")
          trap("INT", now) unless now == @handler
        end
      end
    end
    private_constant :Interrupts
  end
end
