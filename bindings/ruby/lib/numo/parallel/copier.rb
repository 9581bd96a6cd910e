# frozen_string_literal: true

module Numo
  module Parallel
    # Copies the private arrays of a message to a result buffer of the receiver or to shared memory
    # of the sender's own. If there is room in neither, the arrays are sent in band.
    class Copier
      # The time spent on searching for room in vain is at most 1/PART of the running time.
      PART = 20

      def initialize
        @not_before = 0
        @buffers = []
      end

      # Takes a result buffer for the arrays of a later message. The receiver may have taken it back
      # already.
      # @param handle [String]
      def take_buffer(handle)
        @buffers << Shmarray::Array.attach(handle)
      rescue Shmarray::Error, SystemCallError
        nil
      end

      # Returns copies in shared memory, in the arrays' order, which the caller closes; nil if there
      # is no room. Also whether they are in a result buffer, and how many bytes of a buffer they
      # need.
      # @return [(Array<Shmarray::Array>, Boolean, Integer)]
      def copies(arrays)
        for_buffer, others = ResultBuffers.partition(arrays)
        needed = ResultBuffers.needed(for_buffer)
        writer = ResultBuffers::Writer.for(@buffers, needed)
        rest = copies_of_own(writer ? others : arrays) or return [nil, false, 0]
        return [rest, false, needed] unless writer

        [in_order(arrays, for_buffer.zip(writer.copies(for_buffer)) + others.zip(rest)), true,
         needed]
      end

      private

      def copies_of_own(arrays)
        own_copies(arrays) || (make_room(ResultBuffers.needed(arrays)) && own_copies(arrays)) || nil
      end

      def in_order(arrays, pairs)
        copies = pairs.each_with_object({}.compare_by_identity) do |(array, copy), all|
          all[array] = copy
        end
        arrays.map { |array| copies[array] }
      end

      def own_copies(arrays)
        copies = []
        arrays.each do |array|
          copy = Internals.copy_if_room(array) or break
          copies << copy
        end
        return copies if copies.size == arrays.size

        copies.each(&:close)
        nil
      end

      def make_room(bytes)
        began = Copier.now
        return false if began < @not_before

        Internals.make_room
        has_room = -> { Internals.room?(bytes) }
        enough = has_room.call || (Internals.others_make_room && has_room.call)
        now = Copier.now
        @not_before = now + (PART * (now - began)) unless enough
        enough
      end

      def self.now
        Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end
    end
    private_constant :Copier
  end
end
