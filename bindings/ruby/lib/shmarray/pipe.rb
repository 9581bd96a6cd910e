# frozen_string_literal: true

require "io/wait" # IO#wait_readable, which Ruby 3.1 does not have by itself
require "shmarray/waits"

module Shmarray
  # One end of a pipe that carries arrays and bytes in both directions.
  #
  # Any number of processes may share an end: each message is received once, and whole. A message
  # that no process can receive any more releases its arrays. The fds close on exec unless spawn
  # is told of them: +spawn(program, pipe.fileno => pipe.fileno)+, and there {from_fd}.
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
    #   @raise [SystemCallError] if this process has no fds left

    # @!method self.from_fd(fd)
    #   Returns the end of a pipe that this process was started with. The pipe owns the fd from now
    #   on.
    #   @param fd [Integer]
    #   @return [Pipe]
    #   @raise [ArgumentError] if the fd is not an end of such a pipe
    #   @example
    #     here, there = Shmarray::Pipe.pair
    #     program = "require 'shmarray'; Shmarray::Pipe.from_fd(ARGV[0].to_i).send_arrays('hello')"
    #     fd = there.fileno
    #     Process.wait(spawn("ruby", "-e", program, fd.to_s, fd => fd))
    #     here.receive.payload # => "hello"

    # @!method fileno
    #   @return [Integer] the fd
    #   @raise [IOError] if the pipe is closed
    # @!method closed?
    #   @return [Boolean]

    # Sends bytes and arrays.
    #
    # @param payload [String]
    # @param arrays [::Array<Array, Numo::NArray>] in shared memory; the message holds them until it
    #   is received
    # @param timeout [Numeric, nil] seconds; nil waits for ever
    # @return [self]
    # @raise [TimeoutError] if there was no room in that time: then nothing was sent
    # @raise [Errno::EPIPE] if no process has the other end
    # @raise [IOError] if the pipe is closed, or another thread closes it
    def send_arrays(payload, arrays = [], timeout: nil)
      Waits.until(timeout, NO_ROOM) do |left|
        try_send(payload, arrays) || (to_io.wait_writable(left) && nil)
      end
      self
    end

    # Receives the next message. With a block it returns the block's result, and closes the message
    # at the block's end.
    #
    # @param timeout [Numeric, nil] seconds; nil waits for ever
    # @yieldparam message [Message]
    # @return [Message, Object]
    # @raise [TimeoutError] if no message came in that time
    # @raise [EOFError] if no process has the other end and all messages have been received
    # @raise [IOError] if the pipe is closed, or another thread closes it
    def receive(timeout: nil)
      # Ruby does the waiting, so other threads run, and signal handlers do.
      message = Waits.until(timeout, NO_MESSAGE) do |left|
        try_receive || (to_io.wait_readable(left) && nil)
      end
      return message unless block_given?

      begin
        yield message
      ensure
        message.close
      end
    end

    # Returns an IO for IO.select: readable if {#receive} would not wait.
    # @return [IO]
    def to_io
      raise IOError, "closed pipe" if closed?

      @to_io ||= IO.for_fd(fileno, autoclose: false) # the fd stays ours
    end

    # Closes this end. Threads that wait on it get an IOError.
    # @return [nil]
    def close
      @to_io&.close
      let_go
    end

    private_constant :NO_ROOM, :NO_MESSAGE
  end

  # A message that was received: bytes and arrays.
  #
  # It holds its arrays until it is closed or collected. An array that {#array} returned has a hold
  # of its own.
  class Message
    # @!method payload
    #   @return [String] binary
    # @!method size
    #   @return [Integer] how many arrays there are
    # @!method array(index, readonly: false)
    #   Returns one of the arrays. Nothing is copied.
    #   @param index [Integer] negative ones count from the end
    #   @param readonly [Boolean] as in {Array.attach}
    #   @return [Array] for Numo, give it to Numo::Shared.attach
    #   @raise [IndexError] if there is no such array
    #   @raise [IOError] if the message is closed
    # @!method close
    #   Releases the arrays that {#array} did not return.
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
