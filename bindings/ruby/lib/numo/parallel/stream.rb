# frozen_string_literal: true

module Numo
  module Parallel
    # Frames through a pipe of the system: a kind, the number of a job, and bytes.
    module Stream
      HEAD = "Q<CQ<"
      HEAD_BYTES = 17
      # The capacity of a pipe.
      PIPE_BYTES = 64 << 10

      # Kinds. To the worker: a job, a result buffer, and the answer to COLLECT. From the worker: a
      # result, an exception, and the request that other processes free memory. With the flag
      # ARRAYS, a message on the worker's Shmarray::Pipe has the frame's arrays.
      JOB, BUFFER, COLLECTED, DONE, RAISED, COLLECT = *0..5
      ARRAYS = 0x80

      # @return [(Source, Sink)]
      def self.pair
        reader, writer = IO.pipe(Encoding::BINARY)
        [Source.new(reader), Sink.new(writer)]
      end

      # The end that is written to.
      class Sink
        attr_reader :io

        def initialize(io)
          @io = io
          @left = String.new(encoding: Encoding::BINARY)
          @at = 0
        end

        # Writes a frame, and waits for room. It clears the payload, so that its memory is reused
        # without a collection.
        def write(kind, number, payload)
          @io.write([payload.bytesize, kind, number].pack(HEAD), payload)
          payload.clear unless payload.frozen?
        end

        # Writes a frame without waiting: bytes for which there is no room go with the next
        # {#flush}. Returns whether all was written. A large payload is cleared after it was
        # written.
        def offer(kind, number, payload)
          @left << [payload.bytesize, kind, number].pack(HEAD)
          return flush_with(payload) if payload.bytesize < PIPE_BYTES

          flush
          @left.empty? ? @left = payload : @left << payload # a large payload is not copied
          flush
        end

        # Writes as much as there is room for. Returns whether all was written.
        def flush
          while @at < @left.bytesize
            written = Internals.write_some(@io.fileno, @left, @at) or return false
            @at += written
          end
          @left.clear
          @at = 0
          true
        end

        # Returns whether bytes wait for room.
        def waits?
          !@left.empty?
        end

        def close
          @io.close
        end

        private

        def flush_with(payload)
          @left << payload
          flush
        end
      end

      # The end that is read.
      class Source
        attr_reader :io

        def initialize(io)
          @io = io
          @buffer = String.new(encoding: Encoding::BINARY)
          @bytes = String.new(encoding: Encoding::BINARY)
          @payload = String.new(encoding: Encoding::BINARY)
          @rest = String.new(encoding: Encoding::BINARY)
          @frames = []
        end

        # Waits for a frame. Returns its kind, number and payload, which is valid until the next
        # call; nil if the other end is closed.
        def receive
          while @frames.empty?
            @io.wait_readable
            more = each_frame { |kind, number, payload| @frames << [kind, number, payload.dup] }
            return unless more

            return finish_frame if @missing && @frames.empty?
          end
          @frames.shift
        end

        # Calls the block with each complete frame that has come, without waiting. Returns whether
        # more may come. A payload is valid until the block ends.
        def each_frame(&block)
          @missing ? read_payload(&block) : read_frames(&block)
        end

        def close
          @io.close
        end

        private

        def read_frames(&block)
          part = @io.read_nonblock(PIPE_BYTES, @buffer, exception: false)
          return !part.nil? unless part.is_a?(String)

          @bytes.empty? ? take(part, &block) : take(@bytes << part, &block)
          true
        end

        def take(bytes)
          at = 0
          while bytes.bytesize - at >= HEAD_BYTES
            size, kind, number = bytes.unpack(HEAD, offset: at)
            from = at + HEAD_BYTES
            if bytes.bytesize - from < size
              return begin_payload(size, kind, number, bytes.byteslice(from..))
            end

            at = from + size
            yield kind, number, bytes.byteslice(from, size)
          end
          @bytes = bytes.byteslice(at..)
        end

        # Begins a payload that has not come completely. It has a buffer of its own, which is
        # reused.
        def begin_payload(size, kind, number, part)
          @bytes = +""
          @payload[0..] = part
          @head = [kind, number]
          @missing = size - part.bytesize
        end

        # Waits for the rest of a frame that has begun.
        def finish_frame
          rest = @io.read(@missing, @rest)
          return if rest.nil? || rest.bytesize < @missing

          @missing = nil
          [*@head, @payload << rest]
        end

        def read_payload
          part = @io.read_nonblock([@missing, PIPE_BYTES].min, @buffer, exception: false)
          return !part.nil? unless part.is_a?(String)

          @payload << part
          @missing -= part.bytesize
          return true if @missing.positive?

          @missing = nil
          yield(*@head, @payload)
          true
        end
      end
    end
    private_constant :Stream
  end
end
