# frozen_string_literal: true

module Numo
  module Parallel
    # One item and its place.
    Job = ::Struct.new(:item, :index)

    # The items, given out one at a time and in order.
    class Jobs
      def initialize(source)
        @mutex = Mutex.new
        @next = producer_of(source)
        @items = source.to_a unless @next # before the fork: children have them, too
        @count = 0
      end

      # The next one; nil when there is none.
      def take
        @mutex.synchronize do
          item = @next ? produce : @items[@count]
          return if @next ? item.equal?(Stop) : @count >= @items.size

          Job.new(item, @count).tap { @count += 1 }
        end
      end

      # nil when nobody knows.
      def size
        @items&.size
      end

      # What a child must be told to know the job.
      def told(job)
        @next ? job.to_a : job.index
      end

      def known(told)
        @next ? Job.new(*told) : Job.new(@items[told], told)
      end

      private

      def producer_of(source)
        return source if source.respond_to?(:call)

        -> { source.pop(false) } if source.respond_to?(:num_waiting) && source.respond_to?(:pop)
      end

      def produce
        return Stop if @stopped

        @next.call.tap { |item| @stopped = item.equal?(Stop) }
      end
    end
    private_constant :Job, :Jobs
  end
end
