# frozen_string_literal: true

module Numo
  module Parallel
    # One call: its workers, a thread here for each, and what ends them.
    class Run
      def initialize(jobs, block, results:, with_index:, in_processes: nil, isolation: false, progress: nil, **callbacks)
        @jobs, @block, @with_index, @isolation = jobs, block, with_index, isolation
        @keeps_results, @results = results, []
        count = in_processes.nil? ? Parallel.processor_count : Integer(in_processes)
        raise ArgumentError, "in_processes: #{count} processes" if count.negative?

        @count = [count, *jobs.size].min
        @callbacks = Callbacks.new(bar: progress && Progress.start(progress, jobs.size), **callbacks)
        @lock = Mutex.new
      end

      # The results, or what a Break brought; +otherwise+ where results are not kept.
      def outcome(otherwise)
        @count.zero? ? work_here : work_in_processes
        raise @failure unless @failure.nil? || @failure.is_a?(Break)
        return @failure.value if @failure

        @keeps_results ? @results : otherwise
      end

      private

      def work_here
        outer = Worker.number
        Worker.number = 0
        until @failure || !(job = @jobs.take)
          attempt { done(job) { @block.call(*Child.arguments(job, @with_index)) } }
        end
      ensure
        Worker.number = outer
      end

      # Whatever interrupts the caller finds no worker left behind.
      def work_in_processes
        @workers, threads, is_over = [], [], false
        Thread.handle_interrupt(Object => :never) do
          Thread.handle_interrupt(Object => :immediate) do
            @count.times { |number| @workers << new_worker(number) }
            @count.times { |number| threads << Thread.new { drive(number) } }
            threads.each(&:join)
            is_over = true
          end
        ensure
          threads.each(&:kill).each(&:join)
          @workers.each(&:kill) unless is_over
          @workers.each(&:let_go).each(&:wait)
        end
      end

      def new_worker(number)
        results = @keeps_results || @callbacks.want_results?
        Worker.new(number, @jobs, slots, @block, results:, with_index: @with_index)
      end

      def slots
        @slots ||= Slots.new
      end

      def drive(number)
        is_new = true
        until @failure || !(job = @jobs.take)
          attempt do
            renew(number) if @isolation && !is_new
            is_new = false
            done(job) { @workers[number].perform(job) }
          end
        end
      end

      def renew(number)
        @workers[number].let_go
        @workers[number].wait
        @workers[number] = new_worker(number)
      end

      def done(job)
        @callbacks.start(job)
        value = yield
        @callbacks.finish(job, value)
        @lock.synchronize { @results[job.index] = value } if @keeps_results
      end

      # The first that fails ends the call.
      def attempt
        yield
      rescue Exception => error # rubocop:disable Lint/RescueException
        is_first = @lock.synchronize { @failure.nil? && (@failure = error) }
        @workers.each(&:kill) if is_first && error.is_a?(Kill) && @workers
      end
    end

    # What the caller wants to hear of each job, one at a time.
    class Callbacks
      def initialize(bar: nil, start: nil, finish: nil, finish_in_order: false)
        @bar, @start, @finish, @in_order = bar, start, finish, finish_in_order
        @lock = Mutex.new
        @waiting, @next = {}, 0
      end

      def want_results?
        !@finish.nil?
      end

      def start(job)
        @lock.synchronize { @start.call(job.item, job.index) } if @start
      end

      def finish(job, value)
        @lock.synchronize do
          @bar&.call
          @in_order ? finish_in_order(job, value) : tell(job, value)
        end
      end

      private

      def tell(job, value)
        @finish&.call(job.item, job.index, value)
      end

      def finish_in_order(job, value)
        @waiting[job.index] = [job, value]
        while (one = @waiting.delete(@next))
          tell(*one)
          @next += 1
        end
      end
    end
    private_constant :Run, :Callbacks
  end
end
