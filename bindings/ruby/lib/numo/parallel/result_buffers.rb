# frozen_string_literal: true

module Numo
  module Parallel
    # Memory that the parent lends to one worker, for the arrays of its next result (PARALLEL.md).
    class ResultBuffers
      # For smaller results a buffer saves nothing: a worker's own shared memory costs no more.
      LEAST_BYTES = 64 << 10
      ALIGNMENT = 64
      # An array with less than that part of a result's bytes has memory of its own.
      LEAST_PART = 8

      # How many bytes these arrays take in a buffer.
      def self.needed(arrays)
        arrays.sum { |array| aligned(array.byte_size) }
      end

      def self.aligned(bytes)
        (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT
      end

      # Those that may lie in one buffer, and the others: an array that is kept keeps all of the
      # buffer.
      def self.partition(arrays)
        least = arrays.sum(&:byte_size) / LEAST_PART
        arrays.partition { |array| array.byte_size >= least }
      end

      # Whether arrays that need so many bytes may go to a buffer. A small result must not keep a
      # large buffer alive.
      def self.fits?(buffer, needed)
        needed <= buffer.size && 2 * needed > buffer.size
      end

      # The last result needed so many bytes, and used the buffer or not. Returns the handle of what
      # to lend for the next one, which is probably as large; nil where nothing is lent.
      def next(needed, used)
        give_back if used
        return if @buffer && ResultBuffers.fits?(@buffer, needed)

        give_back
        return if needed < LEAST_BYTES || !Shmarray.send(:room?, needed)

        @buffer = Shmarray::Array.create(:uint8, needed, uninitialized: true)
        @buffer.handle
      rescue Errno::ENOSPC
        nil # the worker has its own memory
      end

      # What the worker has of it stays as long as it needs it.
      def give_back
        @buffer&.close
        @buffer = nil
      end

      # What a worker copies into a buffer, array after array.
      class Writer
        # nil where there is no buffer, or not one for so many bytes.
        def self.for(buffer, needed)
          new(buffer) if buffer && needed.positive? && ResultBuffers.fits?(buffer, needed)
        end

        def initialize(buffer)
          @buffer, @used = buffer, 0
        end

        # Views of the buffer with the arrays' elements. The buffer is closed.
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
