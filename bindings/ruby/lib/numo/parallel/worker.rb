# frozen_string_literal: true

module Numo
  module Parallel
    # A worker as its parent sees it.
    class Worker
      attr_reader :number

      # The parent's ends of all pipes. Every forked child closes them, so that a worker leaves when
      # its parent does, even if other processes live.
      @ends = {}.compare_by_identity

      class << self
        # The number of the worker whose block runs in this thread.
        def number
          Thread.current[:numo_parallel_worker_number]
        end

        def number=(number)
          Thread.current[:numo_parallel_worker_number] = number
        end

        def own(ends)
          ends.each { |one| @ends[one] = true }
        end

        # Interrupts are held: one between delete and close would leave an end open for ever.
        def close(ends)
          Interrupts.hold { ends.each { |one| @ends.delete(one) && one.close } }
        end

        def begin_child
          @ends.each_key(&:close)
          @ends.clear
        end
      end

      # Ruby calls it for every fork.
      module Forks
        def _fork
          super.tap { |pid| Worker.begin_child if pid.zero? }
        end
      end
      Process.singleton_class.prepend(Forks)

      # Forks. The caller holds interrupts back meanwhile: the worker may be at its first job before
      # its parent knows of it.
      def initialize(number, jobs, block, **what)
        @number = number
        @jobs = jobs
        @results = what[:results]
        @sent_arrays = false
        requests, @requests = Stream.pair
        @replies, replies = Stream.pair
        @pipe, pipe = Shmarray::Pipe.pair
        Worker.own([@requests, @replies, @pipe])
        @pid = fork_child { Child.new(number, jobs, block, [requests, replies, pipe], **what).work }
        @buffers = ResultBuffers.new
        @copier = Copier.new
      rescue Exception # rubocop:disable Lint/RescueException
        close # no process or fd is left, or an interrupt was let in before the fork
        raise
      ensure
        [requests, replies, pipe].each { |one| one&.close }
      end

      # Opens the pidfd and lends buffers. To be called after all workers have been forked.
      def watch
        Interrupts.hold { @exit = ProcessExit.of(@pid) }
        @buffers.lend { |handle| offer_buffer(handle) } if @results
      end

      # Returns whether it has sent arrays by handle.
      def sent_arrays?
        @sent_arrays
      end

      # Returns the IOs that are readable when it has replied or ended; none if it has ended.
      def readable
        @replies ? [@replies.io, @exit.io] : []
      end

      # Returns the IO that is writable when it can take the rest of a job.
      def writable
        @requests&.waits? ? [@requests.io] : []
      end

      # Sends it a job. It must have none.
      def assign(job)
        @job = job
        return @requests.offer(Stream::JOB, job.index, "") if @jobs.listed?

        bytes, flag = Payload.new(job.item).send_arrays(@pipe, @copier)
        @requests.offer(Stream::JOB | flag, job.index, bytes)
      rescue Errno::EPIPE
        nil # it has died, as `listen` will find
      end

      def flush
        @requests&.flush
      rescue Errno::EPIPE
        nil
      end

      # Calls the block with each of its replies: succeeded or not, the job's number, the value.
      # Returns whether it lives.
      def listen(&block)
        more = @replies.each_frame do |kind, number, payload|
          receive_reply(kind, number, payload, &block)
        end
        more || end_of_replies
      end

      def rest_of_replies(&block)
        nil while @replies && !@replies.io.wait_readable(0).nil? && listen(&block)
        end_of_replies
      end

      # The job that it was sent and has not answered, and the number of the one that it answered
      # last.
      attr_reader :job, :answered

      # Returns whether it has done a job.
      def was_used?
        !@answered.nil?
      end

      def has_answered(number)
        @job = nil
        @answered = number
      end

      # Closes its requests: it ends after its current job.
      def let_go
        Worker.close([@requests].compact)
        @requests = nil
        self
      end

      def kill
        Process.kill(:KILL, @pid) unless @exit&.reaped?
      rescue Errno::ESRCH
        nil # it has ended
      end

      # Waits until it has ended, and releases what it held.
      def wait
        @exit ||= ProcessExit.of(@pid) # if the caller was interrupted before
        @exit.status
        close
        @buffers.give_back
      end

      # Returns whether SIGINT ended it. To be called after {wait}.
      def interrupted?
        @exit.status&.exitstatus == Interrupts::EXIT_CODE
      end

      # Returns the error that it died, and what was lost with it.
      def lost(what)
        status = @exit.status
        how = if status.nil? then "ended"
              elsif status.signaled? then "was killed by SIG#{Signal.signame(status.termsig)}"
              else "left with exit code #{status.exitstatus}"
              end
        Shmarray::WorkerLost.new("worker #{@pid} #{how} and took #{what} with it")
      end

      private

      # Forks a child that never runs code outside of the block.
      def fork_child(&block)
        parent = Process.pid
        Interrupts.fork do
          Interrupts.be_child
          Worker.number = @number
          Interrupts.let_in(&block)
          Interrupts.exit_silently
        rescue Interrupt # the parent reports what it did
          exit!(Interrupts::EXIT_CODE)
        end
      rescue Exception # rubocop:disable Lint/RescueException
        exit!(false) unless Process.pid == parent
        raise
      end

      def receive_reply(kind, number, payload)
        return make_room(number) if kind == Stream::COLLECT

        message = nil
        # It has come before its frame. An interrupt here would leave its fds to the collector.
        Interrupts.hold { message = @pipe.receive } if kind.anybits?(Stream::ARRAYS)
        lend_buffers(message) if message
        yield kind & ~Stream::ARRAYS == Stream::DONE, number, Payload.load(payload, message)
      ensure
        message&.close
      end

      def lend_buffers(message)
        @sent_arrays = true
        used, needed = message.payload.unpack("CQ")
        @buffers.lend_next(needed, used == 1) { |handle| offer_buffer(handle) }
      end

      def offer_buffer(handle)
        @requests&.offer(Stream::BUFFER, 0, handle)
      rescue Errno::EPIPE
        nil # it has died, as `listen` will find
      end

      def make_room(number)
        Internals.make_room
        Internals.others_make_room
        @requests&.offer(Stream::COLLECTED, number, "")
      rescue Errno::EPIPE
        nil
      end

      def close
        Worker.close([@requests, @replies, @pipe].compact)
        @requests = @replies = nil
      end

      def end_of_replies
        Worker.close([@replies].compact)
        @replies = nil
        false
      end
    end
    private_constant :Worker
  end
end
