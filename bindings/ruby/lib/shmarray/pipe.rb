# frozen_string_literal: true

require "io/wait" # IO#wait_readable, which Ruby 3.1 does not have by itself

module Shmarray
  # One end of a pipe that carries arrays and bytes, both ways.
  #
  #   here, there = Shmarray::Pipe.pair
  #   frame = Shmarray::Array.create(:float32, [480, 640])
  #   here.send_arrays("frame 1", [frame])     # the message holds it from now on
  #   message = there.receive(timeout: 1)      # in another process, by fork or exec
  #   message.payload                          # => "frame 1"
  #   message.array(0).shape                   # => [480, 640]
  #
  # Any number of processes may share an end: each message is received once, and whole. A message
  # that nobody can receive any more gives its arrays back. Descriptors close on exec, unless
  # spawn is told of them: spawn(program, pipe.fileno => pipe.fileno), and there Pipe.for_fd.
  class Pipe
    # Sends bytes and arrays, of Shmarray or of Numo in shared memory; returns self.
    #
    # Raises TimeoutError when there was no room in so many seconds, Errno::EPIPE when nobody has
    # the other end: then nothing was sent.
    def send_arrays(payload, arrays = [], timeout: nil)
      attempt(:wait_writable, timeout, "the pipe had no room") { try_send(payload, arrays) }
      self
    end

    # A Message; with a block what that makes of it, and the message is closed when it ends.
    #
    # Raises TimeoutError when none came in so many seconds, EOFError when nobody has the other
    # end and all that was sent has been received.
    def receive(timeout: nil)
      message = attempt(:wait_readable, timeout, "no message came") { try_receive }
      return message unless block_given?

      begin
        yield message
      ensure
        message.close
      end
    end

    # For IO.select: readable when receive would not wait.
    def to_io
      raise IOError, "closed pipe" if closed?

      @to_io ||= IO.for_fd(fileno, autoclose: false) # the descriptor stays ours
    end

    # Lets this end go. Threads that wait here get an IOError.
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

  # Bytes and arrays that were received: payload, size, array(index, readonly: false).
  #
  # It holds its arrays until it is closed or collected; those that were asked for live on by
  # themselves.
  class Message
    def inspect
      closed? ? "#<#{self.class} closed>" : "#<#{self.class} #{payload.bytesize} bytes, #{size} arrays>"
    end
  end
end
