# frozen_string_literal: true

require "io/wait" # IO#wait_readable, which Ruby 3.1 does not have by itself

module Shmarray
  # One end of a pipe that carries arrays and bytes, both ways.
  #
  # Any number of processes may share an end: each message is received once, and whole. A message
  # that nobody can receive any more gives its arrays back. Fds close on exec, unless
  # spawn is told of them: +spawn(program, pipe.fileno => pipe.fileno)+, and there {for_fd}.
  #
  # @example The other end may be in another process, by fork or exec
  #   here, there = Shmarray::Pipe.pair
  #   frame = Shmarray::Array.create(:float32, [480, 640])
  #   here.send_arrays("frame 1", [frame]) # the message holds it from now on
  #   message = there.receive(timeout: 1)
  #   message.payload # => "frame 1"
  #   message.array(0).shape # => [480, 640]
  class Pipe
    # @!method self.pair
    #   @return [(Pipe, Pipe)] the two ends of a new pipe
    #   @raise [SystemCallError] when this process has no fds left

    # @!method self.for_fd(fd)
    #   An end that this process was started with. The fd is the pipe's from now on.
    #   @param fd [Integer]
    #   @return [Pipe]
    #   @raise [ArgumentError] for an fd that is no end of such a pipe
    #   @example
    #     here, there = Shmarray::Pipe.pair
    #     program = "require 'shmarray'; Shmarray::Pipe.for_fd(ARGV[0].to_i).send_arrays('hello')"
    #     fd = there.fileno
    #     Process.wait(spawn("ruby", "-e", program, fd.to_s, fd => fd))
    #     here.receive.payload # => "hello"

    # @!method fileno
    #   @return [Integer] the fd
    #   @raise [IOError] when the pipe is closed
    # @!method closed?
    #   @return [Boolean]

    # Sends bytes and arrays.
    #
    # @param payload [String]
    # @param arrays [::Array<Array, Numo::NArray>] in shared memory; they are held until they are
    #   received
    # @param timeout [Numeric, nil] seconds; nil waits for ever
    # @return [self]
    # @raise [TimeoutError] when there was no room in that time: then nothing was sent
    # @raise [Errno::EPIPE] when nobody has the other end
    # @raise [IOError] when the pipe is closed, by another thread too
    def send_arrays(payload, arrays = [], timeout: nil)
      attempt(:wait_writable, timeout, "the pipe had no room") { try_send(payload, arrays) }
      self
    end

    # The next message; with a block what that makes of it, and the message is closed when it ends.
    #
    # @param timeout [Numeric, nil] seconds; nil waits for ever
    # @yieldparam message [Message]
    # @return [Message, Object]
    # @raise [TimeoutError] when none came in that time
    # @raise [EOFError] when nobody has the other end and all that was sent has been received
    # @raise [IOError] when the pipe is closed, by another thread too
    def receive(timeout: nil)
      message = attempt(:wait_readable, timeout, "no message came") { try_receive }
      return message unless block_given?

      begin
        yield message
      ensure
        message.close
      end
    end

    # For IO.select: readable when {#receive} would not wait.
    # @return [IO]
    def to_io
      raise IOError, "closed pipe" if closed?

      @to_io ||= IO.for_fd(fileno, autoclose: false) # the fd stays ours
    end

    # Lets this end go. Threads that wait here get an IOError.
    # @return [nil]
    def close
      @to_io&.close
      let_go
    end

    private

    # Tries until there is a result. Waiting is Ruby's: other threads run, and signals do.
    def attempt(wait, timeout, what)
      till = now + timeout if timeout && timeout != Float::INFINITY
      until (result = yield)
        left = till && [till - now, 0].max
        raise TimeoutError, "#{what} in #{timeout} s" unless to_io.public_send(wait, left)
      end
      result
    end

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end

  # Bytes and arrays that were received.
  #
  # It holds its arrays until it is closed or collected; those that were asked for live on by
  # themselves.
  class Message
    # @!method payload
    #   @return [String] binary
    # @!method size
    #   @return [Integer] how many arrays there are
    # @!method array(index, readonly: false)
    #   One of the arrays. Nothing is copied.
    #   @param index [Integer] negative ones count from the end
    #   @param readonly [Boolean] as in {Array.attach}
    #   @return [Array] for Numo, give it to Numo::Shared.attach
    #   @raise [IndexError] when there are fewer
    #   @raise [IOError] when the message is closed
    # @!method close
    #   Lets go of the arrays that nobody asked for.
    #   @return [nil]
    # @!method closed?
    #   @return [Boolean]

    # @return [String]
    def inspect
      return "#<#{self.class} closed>" if closed?

      "#<#{self.class} #{payload.bytesize} bytes, #{size} arrays>"
    end
  end
end
