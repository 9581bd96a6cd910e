# frozen_string_literal: true

module Numo
  module Parallel
    # Memory that the parent lends to one worker, for the arrays of its next result (PARALLEL.md).
    class Loans
      # For smaller results a loan saves nothing: a worker's own shared memory costs no more.
      LEAST_BYTES = 64 << 10
      ALIGNMENT = 64
      # An array with less than that part of a result's bytes has memory of its own.
      LEAST_PART = 8

      # How many bytes these arrays take in a loan.
      def self.needed(arrays)
        arrays.sum { |array| aligned(array.byte_size) }
      end

      def self.aligned(bytes)
        (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT
      end

      # Those that may lie in one loan, and the others: an array that is kept keeps all of the loan.
      def self.divided(arrays)
        least = arrays.sum(&:byte_size) / LEAST_PART
        arrays.partition { |array| array.byte_size >= least }
      end

      # Whether arrays that need so many bytes may go to a loan. A small result must not keep a large loan alive.
      def self.fits?(loan, needed)
        needed <= loan.size && 2 * needed > loan.size
      end

      # The last result needed so many bytes, and used the loan or not. Returns the handle of what to lend for the next
      # one, which is probably as large; nil where nothing is lent.
      def next(needed, used)
        give_back if used
        return if @loan && Loans.fits?(@loan, needed)

        give_back
        return if needed < LEAST_BYTES || !Shmarray.send(:room?, needed)

        @loan = Shmarray::Array.create(:uint8, needed, uninitialized: true)
        @loan.handle
      rescue Errno::ENOSPC
        nil # the worker has its own memory
      end

      # What the worker has of it stays as long as it needs it.
      def give_back
        @loan&.close
        @loan = nil
      end

      # What a worker copies into a loan, array after array.
      class Filler
        # nil where there is no loan, or not one for so many bytes.
        def self.for(loan, needed)
          new(loan) if loan && needed.positive? && Loans.fits?(loan, needed)
        end

        def initialize(loan)
          @loan, @used = loan, 0
        end

        # Views of the loan with the arrays' elements. The loan is closed.
        def copies(arrays)
          arrays.map { |array| copy(array) }
        ensure
          @loan.close
        end

        private

        def copy(array)
          return Shmarray::Array.wrap(array) if array.empty?

          Shared.send(:copy_to, @loan, @used, array).tap { @used += Loans.aligned(array.byte_size) }
        end
      end
    end
    private_constant :Loans
  end
end
