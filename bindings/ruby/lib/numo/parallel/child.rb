# frozen_string_literal: true

module Numo
  module Parallel
    # The worker's side: it does one job after the other, until there are no more or its parent
    # closes the requests.
    class Child
      def initialize(number, jobs, block, ends, counter:, results:, with_index:)
        @number = number
        @jobs = jobs
        @block = block
        @counter = counter
        @requests, @replies, @pipe = ends
        @results = results
        @with_index = with_index
        @copier = Copier.new
        @pid = Process.pid
        @request = 0
      end

      def work
        Internals.others = method(:others_make_room)
        @counter ? work_from_counter : work_for_parent
      rescue Errno::EPIPE
        nil # the parent has gone
      end

      # Returns the arguments for the block.
      def self.arguments(job, with_index)
        with_index ? [job.item, job.index] : [job.item]
      end

      private

      def work_from_counter
        while (index = @counter.take(@number))
          perform(@jobs.at(index))
        end
      end

      def work_for_parent
        while (kind, number, payload = @requests.receive)
          perform(job_of(kind, number, payload)) unless is_control?(kind, payload)
        end
      end

      # Takes the result buffers that have arrived.
      def take_buffers
        @requests.each_frame { |kind, _, payload| is_control?(kind, payload) }
      end

      # Handles a frame that is no job. Returns whether it was one. A COLLECTED frame here answers a
      # request that is over.
      def is_control?(kind, payload)
        @copier.take_buffer(payload) if kind == Stream::BUFFER
        [Stream::BUFFER, Stream::COLLECTED].include?(kind)
      end

      def job_of(kind, number, payload)
        return @jobs.at(number) if payload.empty?

        message = @pipe.receive if kind.anybits?(Stream::ARRAYS)
        Job.new(Payload.load(payload, message), number)
      ensure
        message&.close
      end

      def perform(job)
        kind = Stream::DONE
        begin
          value = call(job)
          value = nil unless @results
        rescue SystemExit, SignalException, NoMemoryError
          raise
        rescue Exception => error # rubocop:disable Lint/RescueException
          kind = Stream::RAISED
          value = without_bindings(error)
        end
        answer(job.index, kind, value)
      end

      def call(job)
        came_back = false
        @block.call(*Child.arguments(job, @with_index)).tap { came_back = true }
      rescue Exception # rubocop:disable Lint/RescueException
        came_back = true
        raise
      ensure
        leave_by_jump(job) unless came_back
      end

      # Reports a break, return or throw, whose target is in another process, and exits.
      def leave_by_jump(job)
        jump = LocalJumpError.new("a block in another process cannot break, return or throw; " \
                                  "raise Numo::Parallel::Break")
        answer(job.index, Stream::RAISED, jump)
        exit
      end

      # Sends the result of a job. After an error no worker, this one first, takes another job.
      def answer(index, kind, value)
        @counter&.stop if kind == Stream::RAISED
        payload = Payload.new(value)
        take_buffers unless payload.in_band?
        bytes, flag = payload.send_arrays(@pipe, @copier)
        @replies.write(kind | flag, index, bytes)
      rescue Errno::EPIPE
        raise
      rescue StandardError => error # the value cannot be dumped
        @counter&.stop
        error = undumpable(value) if kind == Stream::RAISED
        @replies.write(Stream::RAISED, index, Marshal.dump(error))
      end

      # Removes the bindings that the gem better_errors adds to all exceptions of a Rails
      # application in development: Marshal refuses them.
      def without_bindings(error)
        name = :@__better_errors_bindings_stack
        return error if error.frozen? || !error.instance_variable_defined?(name)

        error.remove_instance_variable(name)
        error
      end

      def undumpable(error)
        UndumpableException.new("#{error.class}: #{error.message}").tap do |one|
          one.set_backtrace(error.backtrace)
        end
      end

      # Has the parent run its collector, and ask its own parent. Only the block's thread asks,
      # since it waits for the answer on the stream that brings its next job.
      def others_make_room
        return false unless Process.pid == @pid && Thread.current == Thread.main

        @replies.write(Stream::COLLECT, @request += 1, "")
        while (kind, number, payload = @requests.receive)
          return true if kind == Stream::COLLECTED && number == @request

          is_control?(kind, payload)
        end
        false
      end
    end
    private_constant :Child
  end
end
