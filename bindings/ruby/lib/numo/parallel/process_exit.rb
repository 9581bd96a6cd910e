# frozen_string_literal: true

module Numo
  module Parallel
    # The exit of a child process, reported by the process itself (a pidfd) and not by the end of
    # its pipes, which a child of its own may still have open.
    class ProcessExit
      # An interrupt between the fd and its IO would leave the fd open.
      #
      # @param pid [Integer]
      def self.of(pid)
        Interrupts.hold do
          fd = Internals.process_fd(pid)
          fd ? new(pid, IO.for_fd(fd, autoclose: true)) : Waited.new(pid)
        end
      end

      # An IO that is readable after the process has ended. Its last output is in its pipe then.
      attr_reader :io

      def initialize(pid, io)
        @pid = pid
        @io = io
      end

      # Waits for the process. Returns nil if other code has waited for it already.
      #
      # An exception that comes within IO#close would leave the fd open.
      # @return [Process::Status, nil]
      def status
        return @status if reaped?

        @io.wait_readable # other threads run meanwhile
        Interrupts.hold do
          @status = wait
          @io.close
        end
        @status
      end

      # Returns whether it has been waited for.
      def reaped?
        @io.closed?
      end

      private

      # Waits without changing the program's own $?.
      def wait
        status = Process::Status.wait(@pid)
        status if status && status.pid == @pid
      end

      # The same for kernels without pidfds: a thread waits.
      class Waited < ProcessExit
        def initialize(pid)
          reader, @writer = IO.pipe
          super(pid, reader)
          # Closing the writer would not do, since a child might have it open.
          @thread = Thread.new { wait.tap { @writer.write("x") } }
        end

        def status
          return @status if reaped?

          @status = @thread.value
          Interrupts.hold { [@io, @writer].each(&:close) }
          @status
        end
      end
    end
    private_constant :ProcessExit
  end
end
