# frozen_string_literal: true

module Numo
  module Parallel
    # A worker as its parent sees it.
    class Worker
      attr_reader :number

      # The parent's ends of all pipes. A child that anybody forks closes them, so that a worker
      # leaves when its parent does, whoever else lives.
      @ends = {}.compare_by_identity

      class << self
        # That of the worker whose block runs in this thread.
        def number
          Thread.current[:numo_parallel_worker_number]
        end

        def number=(number)
          Thread.current[:numo_parallel_worker_number] = number
        end

        def own(ends)
          ends.each { |one| @ends[one] = true }
        end

        def close(ends)
          ends.each { |one| @ends.delete(one) && one.close }
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

      # Forks. Meanwhile no interrupt may come: the worker may be at its first job before its parent
      # knows of it.
      def initialize(number, jobs, block, **what)
        @number, @jobs = number, jobs
        requests, @requests = Stream.pair
        @replies, replies = Stream.pair
        @pipe, pipe = Shmarray::Pipe.pair
        Worker.own([@requests, @replies, @pipe])
        @pid = fork_child { Child.new(number, jobs, block, [requests, replies, pipe], **what).work }
        @buffers, @copier = ResultBuffers.new, Copier.new
      rescue Exception # rubocop:disable Lint/RescueException
        close # no process or no fd is to be had, or an interrupt was let in before the fork
        raise
      ensure
        [requests, replies, pipe].each { |one| one&.close }
      end

      # To be called when all have been forked.
      def watch
        @exit = ProcessExit.of(@pid)
      end

      # What is readable when it has said something or has ended; nothing when that is known.
      def readable
        @replies ? [@replies.io, @exit.io] : []
      end

      # What is writable when it can be told the rest of a job.
      def writable
        @requests&.waits? ? [@requests.io] : []
      end

      # Tells it a job, which it can only do when it has none.
      def tell(job)
        @job = job
        return @requests.offer(Stream::JOB, job.index, "") if @jobs.known?

        bytes, flag = Payload.new(job.item).send_arrays(@pipe, @copier)
        @requests.offer(Stream::JOB | flag, job.index, bytes)
      rescue Errno::EPIPE
        nil # it has died, which is found out by whoever listens
      end

      def flush
        @requests&.flush
      rescue Errno::EPIPE
        nil
      end

      # Calls the block with each of its replies, succeeded or not, number of the job and value.
      # Whether it lives.
      def listen(&block)
        more = @replies.each_frame { |kind, number, payload| hear(kind, number, payload, &block) }
        more || end_of_replies
      end

      def rest_of_replies(&block)
        nil while @replies && !@replies.io.wait_readable(0).nil? && listen(&block)
        end_of_replies
      end

      # The job that it was told and did not answer, and the number of the one that it answered
      # last.
      attr_reader :job, :answered

      # Whether it has done a job.
      def was_used?
        !@answered.nil?
      end

      def has_answered(number)
        @job, @answered = nil, number
      end

      # It ends when it has done what it does.
      def let_go
        Worker.close([@requests].compact)
        @requests = nil
        self
      end

      def kill
        Process.kill(:KILL, @pid) unless @exit&.known?
      rescue Errno::ESRCH
        nil # it has ended
      end

      # Until it has ended, and what it held is given back.
      def wait
        watch unless @exit # interrupted before
        @exit.status
        close
        @buffers.give_back
      end

      # That it died, and took something with it.
      def lost(what)
        status = @exit.status
        how = if status.nil? then "ended"
              elsif status.signaled? then "was killed by SIG#{Signal.signame(status.termsig)}"
              else "left with exit code #{status.exitstatus}"
              end
        Shmarray::WorkerLost.new("worker #{@pid} #{how} and took #{what} with it")
      end

      private

      # A worker never runs code outside of the block.
      def fork_child(&block)
        parent = Process.pid
        Interrupts.fork do
          Interrupts.be_child
          Worker.number = @number
          Interrupts.let_in(&block)
          Interrupts.be_quiet
        rescue Interrupt # what it did is for the parent to say
          exit!(false)
        end
      rescue Exception # rubocop:disable Lint/RescueException
        exit!(false) unless Process.pid == parent
        raise
      end

      def hear(kind, number, payload)
        return make_room(number) if kind == Stream::COLLECT

        message = @pipe.receive if kind.anybits?(Stream::ARRAYS)
        offer_buffer(message) if message
        yield kind & ~Stream::ARRAYS == Stream::DONE, number, Payload.load(payload, message)
      ensure
        message&.close
      end

      def offer_buffer(message)
        used, needed = message.payload.unpack("CQ")
        handle = @buffers.next(needed, used == 1)
        @requests&.offer(Stream::BUFFER, 0, handle) if handle
      rescue Errno::EPIPE
        nil # it has died, which is found out by whoever listens
      end

      def make_room(number)
        Shmarray.send(:make_room)
        Shmarray.send(:others_make_room)
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
