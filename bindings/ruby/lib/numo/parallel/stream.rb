# frozen_string_literal: true

module Numo
  module Parallel
    # Frames through a pipe of the system's: a kind, the number of a job, and bytes.
    module Stream
      HEAD = "Q<CQ<"
      HEAD_BYTES = 17
      # What a pipe takes at once.
      PIPE_BYTES = 64 << 10

      # To the worker: a job to do, memory that is lent, and that others have given memory back.
      # From it: what came of a job, and that others shall give memory back. With ARRAYS a message
      # on the worker's Shmarray::Pipe has the frame's arrays.
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
          @left, @at = String.new(encoding: Encoding::BINARY), 0
        end

        # Waits until there is room. The payload is cleared, so that its memory serves the next one
        # without a collection.
        def write(kind, number, payload)
          @io.write([payload.bytesize, kind, number].pack(HEAD), payload)
          payload.clear unless payload.frozen?
        end

        # Does not wait: what finds no room goes with the next {#flush}. Whether all of it has gone.
        # A large payload is cleared when it has gone.
        def offer(kind, number, payload)
          @left << [payload.bytesize, kind, number].pack(HEAD)
          return flush_with(payload) if payload.bytesize < PIPE_BYTES

          flush
          @left.empty? ? @left = payload : @left << payload # one that is large is not copied
          flush
        end

        # Writes what there is room for. Whether all of it has gone.
        def flush
          while @at < @left.bytesize
            written = Shmarray.send(:write_some, @io.fileno, @left, @at) or return false
            @at += written
          end
          @left.clear
          @at = 0
          true
        end

        # Whether something waits for room.
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
          @buffer, @bytes, @payload, @rest = Array.new(4) { String.new(encoding: Encoding::BINARY) }
          @frames = []
        end

        # Waits for a frame: its kind, number and payload, which is good until the next one. nil
        # when the other end has gone.
        def receive
          while @frames.empty?
            @io.wait_readable
            more = each_frame { |kind, number, payload| @frames << [kind, number, payload.dup] }
            return unless more

            return finish_frame if @missing && @frames.empty?
          end
          @frames.shift
        end

        # Calls the block with each whole frame that has come, without waiting. Whether more may
        # come. A payload is good until the block ends.
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

        # One that did not come at once has memory of its own, which is used again.
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
