# frozen_string_literal: true

module Numo
  module Parallel
    # The end of a child process, told by the process itself (a pidfd) and not by the end of its
    # pipes, which a child of its own may still have.
    class ProcessExit
      # @param pid [Integer]
      def self.of(pid)
        fd = Shmarray.send(:process_fd, pid)
        fd ? new(pid, IO.for_fd(fd, autoclose: true)) : Waited.new(pid)
      end

      # Readable when the process has ended: what it said before is in its pipe.
      attr_reader :io

      def initialize(pid, io)
        @pid, @io = pid, io
      end

      # Waits for it. nil when somebody else has waited for it.
      # @return [Process::Status, nil]
      def status
        return @status if known?

        @io.wait_readable # with other threads going on
        @status = wait
        @io.close
        @status
      end

      # Whether it has been waited for.
      def known?
        @io.closed?
      end

      private

      # The program's own $? stays as it is.
      def wait
        status = Process::Status.wait(@pid)
        status if status && status.pid == @pid
      end

      # The same where the kernel has no fds of processes: a thread waits.
      class Waited < ProcessExit
        def initialize(pid)
          reader, @writer = IO.pipe
          super(pid, reader)
          # a closed one might be open in a child
          @thread = Thread.new { wait.tap { @writer.write("x") } }
        end

        def status
          return @status if known?

          @status = @thread.value
          [@io, @writer].each(&:close)
          @status
        end
      end
    end
    private_constant :ProcessExit
  end
end
