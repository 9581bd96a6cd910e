# frozen_string_literal: true

module Numo
  module Parallel
    # Shared memory that the parent lends one worker, for the arrays of its next results
    # (PARALLEL.md).
    class ResultBuffers
      ALIGNMENT = 64

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
        least = arrays.sum(&:byte_size) / Thresholds::LEAST_PART
        arrays.partition { |array| array.byte_size >= least }
      end

      # Returns whether arrays that need so many bytes may go to a buffer. A small result must not
      # keep a large buffer alive.
      def self.fits?(buffer, needed)
        needed <= buffer.size && 2 * needed > buffer.size
      end

      # A worker may finish a result before its parent has answered the one before.
      AHEAD = 2

      # The time spent on collections is at most 1/PART of the running time.
      PART = 20
      # After so many calls without arrays none are expected.
      CALLS = 4

      # What the next call has to know of those before.
      class << self
        # How many bytes the last result with arrays needed. New workers get buffers of this size at
        # once, so the memory that earlier results had is used again.
        attr_accessor :expected

        # Collects the results of the last call that are no longer referenced, to use their memory
        # again. Workers that are forked before that would hold them until the end of the call.
        def begin_call
          began = Copier.now
          return if expected < Thresholds::BUFFER_BYTES || began < @not_before

          Internals.reuse_dead
          now = Copier.now
          @not_before = now + (PART * (now - began))
        end

        def end_call(had_arrays)
          @unused = had_arrays ? 0 : @unused + 1
          self.expected = 0 if @unused >= CALLS
        end
      end
      @expected = @unused = @not_before = 0

      def initialize
        @lent = []
      end

      # Lends buffers for the next results, which are probably as large as the last one. That needed
      # so many bytes, and used the oldest buffer or not.
      # @yield [handle] of each buffer that was not lent yet
      def lend_next(needed, used)
        @lent.shift&.close if used
        give_back unless @lent.all? { |buffer| ResultBuffers.fits?(buffer, needed) }
        ResultBuffers.expected = needed
        lend { |handle| yield handle }
      end

      # @yield [handle] of each new buffer
      def lend
        needed = ResultBuffers.expected
        return if needed < Thresholds::BUFFER_BYTES

        while @lent.size < AHEAD && Internals.room?(needed)
          @lent << Shmarray::Array.create(:uint8, needed, uninitialized: true)
          yield @lent.last.handle
        end
      rescue Errno::ENOSPC
        nil # the worker uses its own memory
      end

      # Releases the buffers. The worker's arrays in them keep the memory.
      def give_back
        @lent.each(&:close).clear
      end

      # Copies arrays into a buffer, one after the other.
      class Writer
        # Takes the first of these buffers that fits so many bytes, and drops those before it.
        # Returns a writer; nil if none fits.
        def self.for(buffers, needed)
          return if needed.zero?

          buffers.shift.close until buffers.empty? || ResultBuffers.fits?(buffers.first, needed)
          new(buffers.shift) unless buffers.empty?
        end

        def initialize(buffer)
          @buffer = buffer
          @used = 0
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

          Internals.copy_to(@buffer, @used, array).tap do
            @used += ResultBuffers.aligned(array.byte_size)
          end
        end
      end
    end
    private_constant :ResultBuffers
  end
end
