# frozen_string_literal: true

module Numo
  module Parallel
    # One item and its index.
    Job = ::Struct.new(:item, :index)

    # The items, given out one at a time and in order.
    class Jobs
      # @param lock [Mutex, nil] for threads that take jobs at once
      def initialize(source, lock = nil)
        @lock = lock
        @next = producer_of(source)
        @items = source.to_a unless @next # before the fork: children have them, too
        @count = 0
      end

      # The next one; nil when there is none.
      def take
        @lock ? @lock.synchronize { take_one } : take_one
      end

      # The next one of a queue that has some: taking it does not wait.
      def take_at_once
        give(@queue.pop(true)) unless @queue.nil? || @stopped
      rescue ThreadError
        nil # it is empty
      end

      # nil when nobody knows.
      def size
        @items&.size
      end

      # Whether children know the items, and need no more than a number.
      def known?
        !@next
      end

      # Whether a producer has no more.
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
