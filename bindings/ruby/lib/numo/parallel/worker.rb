# frozen_string_literal: true

module Numo
  module Parallel
    # A worker as its parent sees it.
    class Worker
      attr_reader :number, :pid

      # The parent's ends of all pipes. A child that anybody forks closes them, so that a worker leaves when
      # its parent does, whoever else lives.
      @ends = {}.compare_by_identity

      class << self
        # That of the worker whose block runs in this thread.
        def number
          Thread.current[:numo_parallel_worker_number]
        end

        def number=(number)
          Thread.current[:numo_parallel_worker_number] = number
        end

        def pipe
          Shmarray::Pipe.pair.tap { |here, _| @ends[here] = true }
        end

        def close(here)
          @ends.delete(here)
          here.close
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

      def initialize(number, jobs, slots, block, **what)
        @number, @jobs, @slots = number, jobs, slots
        @here, there = Worker.pipe
        @pid = Process.fork { be_child(Child.new(there, jobs, block, **what)) }
        there.close
        @ended = Process.detach(@pid)
        @bell, ringer = IO.pipe
        @ring = Thread.new { @ended.join && ringer.write("x") } # a closed one might be open in a child
      rescue SystemCallError # no process or no descriptor to be had
        there&.close
        let_go if @here
        raise
      end

      # Has it do a job. Raises what that raised, and WorkerLost.
      def perform(job)
        slot = @slots.lend
        send(job, slot)
        succeeded, used, needed, payload, message = receive(job)
        @slots.give_back(slot) unless used
        value = Parcel.open(message, payload)
        @slots.learn(needed) if succeeded
        succeeded ? value : raise(value)
      ensure
        message&.close
      end

      # It ends when it has done what it does.
      def let_go
        Worker.close(@here)
      end

      def kill
        Process.kill(:KILL, @pid) if @ended.alive?
      rescue Errno::ESRCH
        nil # it has ended
      end

      # Until it has ended, and what it held is given back.
      def wait
        @ring.join
        @bell.close
        Shmarray.send(:sweep_dead)
      end

      private

      def be_child(child)
        Worker.number = @number
        was = trap("INT", "SYSTEM_DEFAULT") # what ctrl-c did is for the parent to say
        trap("INT", was) if was == "IGNORE"
        child.work
      end

      def send(job, slot)
        parcel = Parcel.new(@jobs.told(job))
        @here.send_arrays([slot ? 1 : 0].pack("C") + parcel.payload, parcel.arrays + [slot].compact)
      rescue Errno::EPIPE
        raise lost(job)
      end

      def receive(job)
        ready, = IO.select([@here, @bell])
        raise lost(job) unless ready.include?(@here) || IO.select([@here], nil, nil, 0) # it may have answered before

        message = @here.receive
        succeeded, used, needed, payload = message.payload.unpack("CCQa*")
        [succeeded == 1, used == 1, needed, payload, message]
      rescue EOFError
        raise lost(job)
      end

      def lost(job)
        status = @ended.value
        how = status.signaled? ? "was killed by SIG#{Signal.signame(status.termsig)}" : "left with exit code #{status.exitstatus}"
        Shmarray::WorkerLost.new("worker #{@pid} #{how} and took item #{job.index} with it")
      end
    end
    private_constant :Worker
  end
end
