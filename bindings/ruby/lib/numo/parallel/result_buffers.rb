# frozen_string_literal: true

module Numo
  module Parallel
    # Shared memory that the parent allocates for one worker, for the arrays of its next result
    # (PARALLEL.md).
    class ResultBuffers
      # The least size of a buffer. For smaller results a buffer saves nothing: a worker's own
      # shared memory costs no more.
      LEAST_BYTES = 64 << 10
      ALIGNMENT = 64
      # An array with less than 1/LEAST_PART of a result's bytes has memory of its own.
      LEAST_PART = 8

      # Returns how many bytes these arrays take in a buffer.
      def self.needed(arrays)
        arrays.sum { |array| aligned(array.byte_size) }
      end

      def self.aligned(bytes)
        (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT
      end

      # Returns the arrays that may share a buffer, and the others: an array that the program keeps
      # holds the whole buffer.
      def self.partition(arrays)
        least = arrays.sum(&:byte_size) / LEAST_PART
        arrays.partition { |array| array.byte_size >= least }
      end

      # Returns whether arrays that need so many bytes may go to a buffer. A small result must not
      # keep a large buffer alive.
      def self.fits?(buffer, needed)
        needed <= buffer.size && 2 * needed > buffer.size
      end

      # Returns the handle of a buffer for the next result, which is probably as large as the last
      # one; nil if no new buffer is needed. The last result needed so many bytes, and used the
      # buffer or not.
      def next(needed, used)
        give_back if used
        return if @buffer && ResultBuffers.fits?(@buffer, needed)

        give_back
        return if needed < LEAST_BYTES || !Shmarray.send(:room?, needed)

        @buffer = Shmarray::Array.create(:uint8, needed, uninitialized: true)
        @buffer.handle
      rescue Errno::ENOSPC
        nil # the worker uses its own memory
      end

      # Releases the buffer. The worker's arrays in it keep the memory.
      def give_back
        @buffer&.close
        @buffer = nil
      end

      # Copies arrays into a buffer, one after the other.
      class Writer
        # Returns a writer; nil if there is no buffer, or it does not fit so many bytes.
        def self.for(buffer, needed)
          new(buffer) if buffer && needed.positive? && ResultBuffers.fits?(buffer, needed)
        end

        def initialize(buffer)
          @buffer, @used = buffer, 0
        end

        # Returns views of the buffer with the arrays' elements, and closes the buffer.
        def copies(arrays)
          arrays.map { |array| copy(array) }
        ensure
          @buffer.close
        end

        private

        def copy(array)
          return Shmarray::Array.wrap(array) if array.empty?

          Shared.send(:copy_to, @buffer, @used, array).tap do
            @used += ResultBuffers.aligned(array.byte_size)
          end
        end
      end
    end
    private_constant :ResultBuffers
  end
end
