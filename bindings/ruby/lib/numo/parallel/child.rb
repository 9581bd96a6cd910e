# frozen_string_literal: true

module Numo
  module Parallel
    # What a worker does: one job after the other, until its parent lets it go.
    class Child
      def initialize(pipe, jobs, block, results:, with_index:)
        @pipe, @jobs, @block, @results, @with_index = pipe, jobs, block, results, with_index
      end

      def work
        while (told, slot = receive)
          answer(told, slot)
        end
      rescue Errno::EPIPE
        nil # the parent has gone
      end

      # What a block is called with.
      def self.arguments(job, with_index)
        with_index ? [job.item, job.index] : [job.item]
      end

      private

      # What is told of a job, and the slot that came with it; nil when there will be no more.
      def receive
        @pipe.receive do |message|
          has_slot, payload = message.payload.unpack("Ca*")
          return Parcel.open(message, payload), (message.array(-1) if has_slot == 1)
        end
      rescue EOFError
        nil
      end

      def answer(told, slot)
        begin
          outcome = [:done, perform(told)]
        rescue SystemExit, SignalException, NoMemoryError
          raise
        rescue Exception => error # rubocop:disable Lint/RescueException
          outcome = [:raised, error]
        end
        send(outcome, slot)
      end

      def perform(told)
        job = @jobs.known(told)
        value = @block.call(*Child.arguments(job, @with_index))
        value if @results
      end

      def send((kind, value), slot)
        parcel = Parcel.new(value)
        needed = Slots::Filler.needed(parcel.private_arrays)
        filler = Slots::Filler.for(slot, needed)
        arrays = parcel.arrays(filler)
        @pipe.send_arrays([kind == :done ? 1 : 0, filler ? 1 : 0, needed].pack("CCQ") + parcel.payload, arrays)
      rescue Errno::EPIPE
        raise
      rescue StandardError => error # it cannot be dumped, or shared memory is full
        raise if kind == :failed

        send([:failed, kind == :raised ? undumpable(value) : error], nil)
      end

      def undumpable(error)
        UndumpableException.new("#{error.class}: #{error.message}").tap { |one| one.set_backtrace(error.backtrace) }
      end
    end
    private_constant :Child
  end
end
