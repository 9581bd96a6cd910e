# frozen_string_literal: true

module Numo
  module Parallel
    # An item and its index.
    Job = ::Struct.new(:item, :index)

    # The items, given out one at a time and in order.
    class Jobs
      # @param lock [Mutex, nil] for threads that take jobs concurrently
      def initialize(source, lock = nil)
        @lock = lock
        @next = producer_of(source)
        @items = source.to_a unless @next # before the fork, so that children have them, too
        @count = 0
      end

      # Returns the next job; nil if there is none.
      def take
        @lock ? @lock.synchronize { take_one } : take_one
      end

      # Returns the next job of a queue that is not empty, so that taking it does not wait.
      def take_at_once
        give(@queue.pop(true)) unless @queue.nil? || @stopped
      rescue ThreadError
        nil # it is empty
      end

      # Returns the number of items; nil if it is unknown.
      def size
        @items&.size
      end

      # Returns whether children know the items, and need only a number.
      def listed?
        !@next
      end

      # Returns whether the producer has no more items.
      def over?
        @stopped
      end

      def at(number)
        Job.new(@items[number], number)
      end

      private

      def producer_of(source)
        return source if source.respond_to?(:call)

        return unless source.respond_to?(:num_waiting) && source.respond_to?(:pop)

        @queue = source
        -> { source.pop(false) }
      end

      def take_one
        return give(@next.call) if @next && !@stopped

        give(@items[@count]) if @items && @count < @items.size
      end

      def give(item)
        @stopped = !@next.nil? && item.equal?(Stop)
        Job.new(item, @count).tap { @count += 1 } unless @stopped
      end
    end
    private_constant :Job, :Jobs
  end
end
