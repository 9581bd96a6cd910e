# frozen_string_literal: true

module Numo
  module Parallel
    # One call: its workers, their replies, and its end.
    class Run
      def initialize(jobs, block, results:, with_index: false, in_processes: nil, in_threads: nil,
                     preserve_results: true, isolation: false, progress: nil, **callbacks)
        @jobs = jobs
        @block = block
        @with_index = with_index
        @isolation = isolation
        @keeps_results = results && preserve_results
        @results = []
        if in_processes && in_threads
          raise ArgumentError, "either in_processes: or in_threads:, not both"
        end

        @in_threads = in_threads ? true : false
        @count = count_of(*(in_threads ? [:in_threads, in_threads] : [:in_processes, in_processes]))
        bar = Progress.start(progress, jobs.size) if progress
        @callbacks = Callbacks.new(lock: @in_threads ? Mutex.new : nil, bar:, **callbacks)
        @done = 0
      end

      # Returns the results, or the value of a Break; +otherwise+ if results are not kept.
      def outcome(otherwise)
        if @count.zero? then work_here
        elsif @in_threads then work_in_threads
        else work_in_processes
        end
        Interrupts.await if @failure.is_a?(Shmarray::WorkerLost) && @workers.any?(&:interrupted?)
        raise @failure unless @failure.nil? || @failure.is_a?(Break)
        return @failure.value if @failure

        @keeps_results ? @results : otherwise
      end

      private

      def count_of(name, count)
        count = count ? Integer(count) : Parallel.processor_count
        raise ArgumentError, "#{name}: must be 0 or more, not #{count}" if count.negative?

        [count, *@jobs.size].min
      end

      def work_here(number = 0)
        outer = Worker.number
        Worker.number = number
        until @failure || !(job = next_job)
          attempt do
            @callbacks.start(job)
            done(job, @block.call(*Child.arguments(job, @with_index)))
          end
        end
      ensure
        Worker.number = outer
      end

      def work_in_threads
        @threads = Threads.new
        @threads.values(@count) { |number| work_here(number) }
      end

      # Leaves no worker behind, even if the caller is interrupted.
      def work_in_processes
        @workers = []
        is_over = false
        ResultBuffers.begin_call
        Internals.begin_family
        Interrupts.undisturbed do
          @counter = Internals.job_counter(@count, @jobs.size) if uses_counter?
          @count.times { |number| start_worker(number) }
          @workers.each(&:watch)
          Interrupts.let_in { conduct }
          is_over = true
        ensure
          @counter&.stop
          @workers.each(&:kill) unless is_over
          @workers.each(&:let_go).each(&:wait)
          ResultBuffers.end_call(@workers.any?(&:sent_arrays?))
          Internals.sweep_dead
        end
      end

      # Returns whether workers take jobs from a counter. They do unless the parent has to see each
      # job before it begins, or the result of the previous one: an error in finish: begins no
      # further job, and results do not pile up in front of it.
      def uses_counter?
        @jobs.listed? && !@isolation && !@callbacks.any?
      end

      # Stores the worker with interrupts held, so that an interrupted call finds it among the
      # others.
      def start_worker(number)
        results = @keeps_results || @callbacks.want_results?
        Interrupts.hold do
          @workers[number] = Worker.new(number, @jobs, @block,
                                        counter: @counter, results:, with_index: @with_index)
        end
      end

      def conduct
        return attend_all if @jobs.listed?

        @helper = HelperThread.new { |io| attend_for_caller(io) }
        @helper.assist { attend_all }
      end

      # Attends to the workers until all have ended.
      def attend_all
        @wanting = @counter ? [] : @workers.dup
        loop do
          give_next_job(@wanting.shift) until @wanting.empty?
          attend or break
        end
        fail_if_jobs_are_missing unless @failure
      end

      # Returns whether there is nothing to wait for any more.
      def attend_for_caller(wake_up)
        !attend(wake_up) || @failure
      rescue Exception => error # rubocop:disable Lint/RescueException
        fail_by(error) # the caller raises it
        true
      end

      # Waits until a worker has replied or ended, or the wake-up fd is readable. Returns nil if all
      # workers have ended.
      def attend(wake_up = nil)
        readable = @workers.flat_map(&:readable)
        return if readable.empty?

        heard, writable = IO.select([*readable, wake_up].compact, @workers.flat_map(&:writable))
        @workers.each { |worker| listen(worker, heard) }
        @workers.each(&:flush) unless writable.empty?
        true
      end

      def listen(worker, heard)
        ios = worker.readable
        on_reply = ->(succeeded, number, value) { answered(worker, succeeded, number, value) }
        lives = !heard.include?(ios[0]) || worker.listen(&on_reply)
        lives &&= !heard.include?(ios[1])
        return if lives

        worker.rest_of_replies(&on_reply)
        lost = job_of(worker)
        fail_by(worker.lost(lost == -1 ? "an item" : "item #{lost}")) if lost
      end

      # Returns the number of the job that an ended worker did not finish.
      def job_of(worker)
        return worker.job&.index unless @counter

        index = @counter.job_of(worker.number)
        index unless index == worker.answered
      end

      def answered(worker, succeeded, number, value)
        job = worker.job || @jobs.at(number)
        worker.has_answered(number)
        succeeded ? attempt { done(job, value) } : fail_by(value)
        return if @counter

        worker.let_go if @isolation || @failure
        @wanting << worker unless @failure
      end

      # Gives a worker its next job; with isolation, gives it to the worker's successor.
      def give_next_job(worker)
        job = next_job unless @failure
        return worker.let_go unless job

        set_to_work(@isolation && worker.was_used? ? successor_of(worker) : worker, job)
      end

      def next_job
        attempt { @helper ? @jobs.take_at_once || @helper.away { @jobs.take } : @jobs.take }
      end

      def successor_of(worker)
        worker.let_go.wait
        start_worker(worker.number).tap(&:watch)
      end

      def set_to_work(worker, job)
        attempt do
          @callbacks.start(job)
          worker.assign(job)
        end
        worker.let_go if @failure
      end

      def done(job, value)
        @callbacks.finish(job, value)
        @results[job.index] = value if @keeps_results
        @done += 1
      end

      # Runs the block. The first error ends the call.
      def attempt
        yield
      rescue StandardError => error
        fail_by(error)
        nil
      end

      def fail_by(error)
        return if @failure

        @failure = error
        @counter&.stop
        return unless error.is_a?(Kill)

        @workers&.each(&:kill)
        @threads&.kill_others
      end

      # Fails if all workers have ended and no error says why a job is missing.
      def fail_if_jobs_are_missing
        return if @jobs.listed? ? @done == @jobs.size : @jobs.over?

        @failure = @workers.last.lost("the remaining items")
      end
    end

    # The caller's blocks for each job, called one at a time.
    class Callbacks
      def initialize(lock: nil, bar: nil, start: nil, finish: nil, finish_in_order: false)
        @bar = bar
        @in_order = finish_in_order
        @start = start || nil # false means none, too
        @finish = finish || nil
        @lock = lock
        @waiting = {}
        @next = 0
      end

      def any?
        !@start.nil? || !@finish.nil?
      end

      def want_results?
        !@finish.nil?
      end

      def start(job)
        one_at_a_time { @start.call(job.item, job.index) } if @start
      end

      def finish(job, value)
        one_at_a_time do
          @bar&.call
          @in_order ? finish_in_order(job, value) : call_finish(job, value)
        end
      end

      private

      # Takes no lock if there is one thread: a signal handler may not wait for one.
      def one_at_a_time(&block)
        @lock ? @lock.synchronize(&block) : yield
      end

      def call_finish(job, value)
        @finish&.call(job.item, job.index, value)
      end

      def finish_in_order(job, value)
        @waiting[job.index] = [job, value]
        while (one = @waiting.delete(@next))
          call_finish(*one)
          @next += 1
        end
      end
    end
    private_constant :Run, :Callbacks
  end
end
