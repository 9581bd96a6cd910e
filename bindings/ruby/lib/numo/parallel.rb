# frozen_string_literal: true

require "etc"
require "numo/shared"

module Numo
  # Blocks that run in forked processes, as those of the gem parallel do. Arrays that a block
  # returns come back through shared memory, also from within Arrays, Hashes and Structs; everything
  # else by Marshal. What a block writes to a captured shared array is seen by all.
  #
  # @example Each child fills its own [3, 3], in place
  #   images = Numo::Shared.new(Numo::Int32, [2, 3, 3])
  #   Numo::Parallel.each_slice_of(images, in_processes: 2) { |image, i| image.fill(i + 1) }
  #   images[1, 0, 0] # => 2
  #
  # @example Results
  #   squares = Numo::Parallel.map([1, 2, 3]) { |n| Numo::DFloat.new(n, n).fill(n * n) }
  #   squares[2].shape # => [3, 3]
  #
  # All methods take the options of that gem, by name or in a Hash:
  #
  # in_processes:: how many processes, at most one for each item; 0 runs everything here. The
  #   default is {processor_count}.
  # in_threads:: how many threads of this process instead, for blocks that wait more than they
  #   compute
  # preserve_results:: false when nobody wants the results: the call returns its source
  # start:: called with item and index before a job, in this process, one at a time
  # finish:: called with item, index and result after it, before its worker begins another
  # finish_in_order:: finish is called in the order of the items
  # progress:: true, a title, or options of the gem ruby-progressbar, which must be installed
  # isolation:: a new process for each item; threads have none
  #
  # An exception in a block ends the call as soon as the other workers have finished the item that
  # they are at. It is raised in the calling process, with its own backtrace. A worker that dies
  # raises {Shmarray::WorkerLost}.
  module Parallel
    # A producer (anything with +call+) returns it when there are no more items.
    Stop = Object.new.freeze

    # Raised in a block, it ends the call, whose value is then {#value}. The other workers finish
    # the item that they are at.
    class Break < StandardError
      # What the call returns.
      attr_reader :value

      # @param value [Object] what Marshal can carry
      def initialize(value = nil)
        super()
        @value = value
      end

      # Its value alone: a cause may be something that Marshal refuses.
      # @return [String]
      def _dump(_level)
        Marshal.dump(@value)
      end

      # @return [Break]
      def self._load(text)
        new(Marshal.load(text))
      end
    end

    # As {Break}, and the other processes are killed.
    class Kill < Break
    end

    # The name that the gem parallel has for it.
    DeadWorker = Shmarray::WorkerLost

    # Stands for an exception that Marshal refuses, with its class, message and backtrace.
    class UndumpableException < StandardError
    end
  end
end

require "numo/parallel/jobs"
require "numo/parallel/stream"
require "numo/parallel/payload"
require "numo/parallel/result_buffers"
require "numo/parallel/copier"
require "numo/parallel/child"
require "numo/parallel/interrupts"
require "numo/parallel/threads"
require "numo/parallel/process_exit"
require "numo/parallel/worker"
require "numo/parallel/progress"
require "numo/parallel/helper_thread"
require "numo/parallel/run"

module Numo
  module Parallel
    OPTIONS = %i[
      in_processes in_threads preserve_results start finish finish_in_order progress isolation
      with_index
    ].freeze
    # Options of the gem parallel, and why they are not here.
    REFUSED = {
      in_ractors: "blocks run in processes or threads; a frozen shared array is every Ractor's",
      ractor: "blocks run in processes or threads; a frozen shared array is every Ractor's",
      interrupt_signal:
        "SIGINT, and any signal whose handler raises, ends the call and its processes",
      serializer: "everything but arrays goes by Marshal"
    }.freeze
    private_constant :OPTIONS, :REFUSED

    class << self
      # What the block makes of each item, in the order of the items.
      #
      # @param source [Enumerable, #call, Queue] items; a producer is called until it returns {Stop}
      # @return [Array]
      # @raise whatever the block raises, with its own backtrace
      # @raise [Shmarray::WorkerLost] when a process dies
      # @example
      #   frames = Numo::Parallel.map(0...4, in_processes: 2) do |i|
      #     { id: i, pixels: Numo::UInt8.new(2, 3).fill(i) }
      #   end
      #   frames[3][:pixels].to_a # => [[3, 3, 3], [3, 3, 3]]
      def map(source, options = {}, &block)
        run(source, options, results: true, &block)
      end

      # Calls the block with each item. What it returns is dropped in its process.
      #
      # @return the source
      def each(source, options = {}, &block)
        run(source, options, results: false, &block)
      end

      # As {.map}, and the block is given the index, too.
      #
      # @return [Array]
      # @example
      #   Numo::Parallel.map_with_index(%w[a b]) { |word, i| word * (i + 1) } # => ["a", "bb"]
      def map_with_index(source, options = {}, &block)
        run(source, { **options, with_index: true }, results: true, &block)
      end

      # As {.each}, and the block is given the index, too.
      #
      # @return the source
      def each_with_index(source, options = {}, &block)
        run(source, { **options, with_index: true }, results: false, &block)
      end

      # As {.map}, and Arrays among the results are taken apart.
      #
      # @return [Array]
      # @example
      #   Numo::Parallel.flat_map([1, 2], in_processes: 2) { |n| [n] * n } # => [1, 2, 2]
      def flat_map(...)
        map(...).flatten(1)
      end

      # As {.map}, without the results that are nil or false.
      #
      # @return [Array]
      # @example
      #   Numo::Parallel.filter_map([1, 2, 3], in_processes: 2) { |n| n * n if n.odd? } # => [1, 9]
      def filter_map(...)
        map(...).select(&:itself)
      end

      # Whether the block is true for an item. The other workers are killed when that is known.
      #
      # @return [Boolean]
      # @example
      #   Numo::Parallel.any?([1, 2, 3], in_processes: 2) { |n| n > 2 } # => true
      def any?(source, options = {}, &block)
        raise ArgumentError, "no block given" unless block

        !each(source, options) { |*item| raise Kill, false if block.call(*item) }
      end

      # Whether the block is true for all items. The other workers are killed when it is not for
      # one.
      #
      # @return [Boolean]
      def all?(source, options = {}, &block)
        raise ArgumentError, "no block given" unless block

        !!each(source, options) { |*item| raise Kill, false unless block.call(*item) }
      end

      # Calls the block with each +array[i, …]+ along an axis, and i: views, so that what is
      # written there is seen by all. A negative axis counts from the end.
      #
      # @param array [Numo::NArray] in shared memory
      # @param options [Hash] those of all methods, and +axis:+, which is 0 when it is not there
      # @return the array
      # @raise [ArgumentError] when the array is private: what is written there would be lost
      # @example
      #   frames = Numo::Shared.new(Numo::UInt8, [4, 1080, 1920, 3])
      #   Numo::Parallel.each_slice_of(frames, in_processes: 2) { |frame, i| frame.fill(i) }
      #   frames[3, 0, 0, true].to_a # => [3, 3, 3]
      def each_slice_of(array, options = {})
        raise ArgumentError, "no block given" unless block_given?
        unless Shared.shared?(array)
          raise ArgumentError,
                "the array is not in shared memory; Numo::Shared.share makes a copy that is"
        end

        axis, options = options.fetch(:axis, 0), options.except(:axis)
        dim = axis.negative? ? axis + array.ndim : axis
        unless dim.between?(0, array.ndim - 1)
          raise IndexError, "axis #{axis} of #{array.ndim} dimensions"
        end

        each(0...array.shape[dim], options) do |index|
          slice = ::Array.new(array.ndim, true)
          slice[dim] = index
          # Numo gives a number where one dimension is left over: a view of one element can be
          # written to.
          yield(array.ndim == 1 ? array[index..index] : array[*slice], index)
        end
        array
      end

      # Calls the block with 0 … count - 1, each in a process of its own, all at once.
      #
      # @param count [Integer, Hash] or options, with +count:+
      # @return [Array] what the blocks returned
      # @example
      #   Numo::Parallel.in_processes(2) { |n| n + 1 } # => [1, 2]
      def in_processes(count = {}, &block)
        options = count.is_a?(Hash) ? count : { count: count }
        count = options[:count] || processor_count
        map(0...count, options.except(:count).merge(in_processes: count), &block)
      end

      # The same in threads of this process.
      #
      # @param count [Integer, Hash] or options, with +count:+
      # @return [Array] what the blocks returned
      def in_threads(count = { count: 2 }, &block)
        raise ArgumentError, "no block given" unless block

        Threads.new.values(Integer(count.is_a?(Hash) ? count.fetch(:count, 2) : count), &block)
      end

      # Processors that this process may use, or what the environment's +PARALLEL_PROCESSOR_COUNT+
      # says.
      # @return [Integer]
      def processor_count
        Integer(ENV["PARALLEL_PROCESSOR_COUNT"] || Etc.nprocessors)
      end

      # The same without the further hardware threads of each core, where the system tells.
      # @return [Integer]
      def physical_processor_count
        lists = Dir["/sys/devices/system/cpu/cpu[0-9]*/topology/thread_siblings_list"]
        siblings = lists.map { |file| File.read(file) }
        [siblings.uniq.size, processor_count].reject(&:zero?).min
      end

      # In a block: the number of its process or thread, from 0 on; 0 when everything runs here.
      # @return [Integer, nil]
      def worker_number
        Worker.number
      end

      # What {worker_number} is in this thread from now on.
      def worker_number=(number)
        Worker.number = number
      end

      private

      def run(source, options, results:, &block)
        check_names(options.keys - OPTIONS)
        raise ArgumentError, "no block given" unless block

        jobs = Jobs.new(source, (Mutex.new if options[:in_threads]))
        Run.new(jobs, block, results:, **options).outcome(source)
      end

      def check_names(unknown)
        refused = unknown.find { |name| REFUSED.key?(name) }
        raise ArgumentError, "#{refused}: is not supported: #{REFUSED[refused]}" if refused
        return if unknown.empty?

        raise ArgumentError,
              "unknown #{unknown.size == 1 ? "option" : "options"}: #{unknown.join(", ")}"
      end
    end
  end
end
