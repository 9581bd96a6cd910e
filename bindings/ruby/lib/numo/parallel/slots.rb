# frozen_string_literal: true

module Numo
  module Parallel
    # Memory that the parent lends with a job, for the arrays of its result (PARALLEL.md).
    class Slots
      # Less than that costs no more than a worker's own shared memory.
      LEAST_BYTES = 64 << 10

      def initialize
        @mutex = Mutex.new
        @spare = []
        @bytes = 0
      end

      # One for a result as large as the last; nil where that had no large array, or memory is short.
      def lend
        bytes = @mutex.synchronize do
          return @spare.pop if @spare.last&.size == @bytes

          @spare.clear
          @bytes
        end
        Shmarray::Array.create(:uint8, bytes, uninitialized: true) if bytes >= LEAST_BYTES
      rescue Errno::ENOSPC
        nil
      end

      # It was not used.
      def give_back(slot)
        @mutex.synchronize { @spare << slot if slot && slot.size == @bytes }
      end

      # So many bytes did a result need.
      def learn(bytes)
        @mutex.synchronize { @bytes = bytes }
      end

      # What a worker copies into one, array after array.
      class Filler
        ALIGNMENT = 64

        # The bytes that arrays need in a slot.
        def self.needed(arrays)
          arrays.sum { |array| aligned(array.byte_size) }
        end

        def self.aligned(bytes)
          (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT
        end

        # nil where there is no slot, or not one for so much.
        def self.for(slot, needed)
          new(slot) if slot && needed <= slot.size && 2 * needed > slot.size
        end

        def initialize(slot)
          @slot, @used = slot, 0
        end

        # A view of the slot with the array's elements.
        def copy(array)
          return Shared.share(array) if array.empty?

          Shared.send(:copy_to, @slot, @used, array).tap { @used += Filler.aligned(array.byte_size) }
        end
      end
    end
    private_constant :Slots
  end
end
