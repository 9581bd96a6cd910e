# frozen_string_literal: true

require "etc"
require "numo/shared"

module Numo
  # Runs blocks in forked processes, as the gem parallel does. Arrays that a block returns come back
  # through shared memory, also from within Arrays, Hashes and Structs; everything else comes back
  # by Marshal. All processes see what a block writes to a captured shared array.
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
  # preserve_results:: false if the results are not needed: the call returns its source
  # start:: called with item and index before a job, in this process, one at a time
  # finish:: called with item, index and result after it, before its worker begins another
  # finish_in_order:: true if finish is to be called in the order of the items
  # progress:: true, a title, or options of the gem ruby-progressbar, which must be installed
  # isolation:: a new process for each item; threads have none
  #
  # An exception in a block ends the call as soon as the other workers have finished their current
  # items. It is raised in the calling process, with its own backtrace. If a worker dies, the call
  # raises {Shmarray::WorkerLost}.
  module Parallel
    # A producer (an object with +call+) returns it when there are no more items.
    Stop = Object.new.freeze

    # Ends the call if it is raised in a block. The call returns {#value}, after the other workers
    # have finished their current items.
    class Break < StandardError
      # The value that the call returns.
      attr_reader :value

      # @param value [Object] an object that Marshal can dump
      def initialize(value = nil)
        super()
        @value = value
      end

      # Dumps only the value: a cause may be an object that Marshal refuses.
      # @return [String]
      def _dump(_level)
        Marshal.dump(@value)
      end

      # @return [Break]
      def self._load(text)
        new(Marshal.load(text))
      end
    end

    # Does the same as {Break}, but the other processes are killed.
    class Kill < Break
    end

    # The gem parallel's name for {Shmarray::WorkerLost}.
    DeadWorker = Shmarray::WorkerLost

    # Replaces an exception that Marshal refuses, with its class, message and backtrace.
    class UndumpableException < StandardError
    end
  end
end

require "numo/parallel/internals"
require "numo/parallel/thresholds"
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
    # Options of the gem parallel that are refused, and why.
    REFUSED = {
      in_ractors: "blocks run in processes or threads; a frozen shared array is every Ractor's",
      ractor: "blocks run in processes or threads; a frozen shared array is every Ractor's",
      interrupt_signal:
        "SIGINT, and any signal whose handler raises, ends the call and its processes",
      serializer: "everything but arrays goes by Marshal"
    }.freeze
    private_constant :OPTIONS, :REFUSED

    class << self
      # Returns the block's result for each item, in the order of the items.
      #
      # @param source [Enumerable, #call, Queue] items; a producer is called until it returns {Stop}
      # @return [Array]
      # @raise any exception that the block raises, with its own backtrace
      # @raise [Shmarray::WorkerLost] if a worker dies
      # @example
      #   frames = Numo::Parallel.map(0...4, in_processes: 2) do |i|
      #     { id: i, pixels: Numo::UInt8.new(2, 3).fill(i) }
      #   end
      #   frames[3][:pixels].to_a # => [[3, 3, 3], [3, 3, 3]]
      def map(source, options = {}, &block)
        run(source, options, results: true, &block)
      end

      # Calls the block with each item. The block's results are dropped in the worker.
      #
      # @return the source
      def each(source, options = {}, &block)
        run(source, options, results: false, &block)
      end

      # Does the same as {.map}, and passes the index to the block, too.
      #
      # @return [Array]
      # @example
      #   Numo::Parallel.map_with_index(%w[a b]) { |word, i| word * (i + 1) } # => ["a", "bb"]
      def map_with_index(source, options = {}, &block)
        run(source, { **options, with_index: true }, results: true, &block)
      end

      # Does the same as {.each}, and passes the index to the block, too.
      #
      # @return the source
      def each_with_index(source, options = {}, &block)
        run(source, { **options, with_index: true }, results: false, &block)
      end

      # Does the same as {.map}, and flattens Arrays among the results by one level.
      #
      # @return [Array]
      # @example
      #   Numo::Parallel.flat_map([1, 2], in_processes: 2) { |n| [n] * n } # => [1, 2, 2]
      def flat_map(...)
        map(...).flatten(1)
      end

      # Does the same as {.map}, without the results that are nil or false.
      #
      # @return [Array]
      # @example
      #   Numo::Parallel.filter_map([1, 2, 3], in_processes: 2) { |n| n * n if n.odd? } # => [1, 9]
      def filter_map(...)
        map(...).select(&:itself)
      end

      # Returns whether the block is true for any item. As soon as it is, the other workers are
      # killed.
      #
      # @return [Boolean]
      # @example
      #   Numo::Parallel.any?([1, 2, 3], in_processes: 2) { |n| n > 2 } # => true
      def any?(source, options = {}, &block)
        raise ArgumentError, "no block given" unless block

        !each(source, options) { |*item| raise Kill, false if block.call(*item) }
      end

      # Returns whether the block is true for all items. As soon as it is not, the other workers are
      # killed.
      #
      # @return [Boolean]
      def all?(source, options = {}, &block)
        raise ArgumentError, "no block given" unless block

        !!each(source, options) { |*item| raise Kill, false unless block.call(*item) }
      end

      # Calls the block with each +array[i, …]+ along an axis, and with i. These are views, so all
      # processes see what is written there. A negative axis counts from the end.
      #
      # @param array [Numo::NArray] in shared memory
      # @param options [Hash] those of all methods, and +axis:+ (0 by default)
      # @return the array
      # @raise [ArgumentError] if the array is private: what the blocks write would be lost
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

        axis = options.fetch(:axis, 0)
        options = options.except(:axis)
        dim = axis.negative? ? axis + array.ndim : axis
        unless dim.between?(0, array.ndim - 1)
          raise IndexError, "axis #{axis} is not below #{array.ndim}"
        end

        each(0...array.shape[dim], options) do |index|
          slice = ::Array.new(array.ndim, true)
          slice[dim] = index
          # If no dimension is left, Numo returns a number; a view of one element can be written to.
          yield(array.ndim == 1 ? array[index..index] : array[*slice], index)
        end
        array
      end

      # Calls the block with 0 … count - 1, each in a process of its own, all at once.
      #
      # @param count [Integer, Hash] or options, with +count:+
      # @return [Array] the results of the blocks
      # @example
      #   Numo::Parallel.in_processes(2) { |n| n + 1 } # => [1, 2]
      def in_processes(count = {}, &block)
        options = count.is_a?(Hash) ? count : { count: count }
        count = options[:count] || processor_count
        map(0...count, options.except(:count).merge(in_processes: count), &block)
      end

      # Does the same in threads of this process.
      #
      # @param count [Integer, Hash] or options, with +count:+
      # @return [Array] the results of the blocks
      def in_threads(count = { count: 2 }, &block)
        raise ArgumentError, "no block given" unless block

        Threads.new.values(Integer(count.is_a?(Hash) ? count.fetch(:count, 2) : count), &block)
      end

      # Returns how many processors this process may use, or the value of +PARALLEL_PROCESSOR_COUNT+
      # in the environment.
      # @return [Integer]
      def processor_count
        Integer(ENV["PARALLEL_PROCESSOR_COUNT"] || Etc.nprocessors)
      end

      # Returns the same without the further hardware threads of each core, if the system lists
      # them.
      # @return [Integer]
      def physical_processor_count
        lists = Dir["/sys/devices/system/cpu/cpu[0-9]*/topology/thread_siblings_list"]
        siblings = lists.map { |file| File.read(file) }
        [siblings.uniq.size, processor_count].reject(&:zero?).min
      end

      # Returns, in a block, the number of its process or thread, counted from 0; 0 if everything
      # runs here.
      # @return [Integer, nil]
      def worker_number
        Worker.number
      end

      # Sets the {worker_number} of this thread.
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
