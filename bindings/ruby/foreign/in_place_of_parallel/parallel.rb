# frozen_string_literal: true

# Numo::Parallel by the name and the calls of the gem parallel, for that gem's specs.
#
#   RUBYLIB=bindings/ruby/foreign/in_place_of_parallel rspec spec/parallel_spec.rb     # in its checkout
#
# Threads are asked for there where it does not matter; here they are processes.

require "numo/shared"

Parallel = Numo::Parallel

module Numo
  module Parallel
    DeadWorker = Shmarray::WorkerLost

    # Options in a Hash, and those that mean processes.
    module AsTheGem
      %i[map each map_with_index each_with_index flat_map filter_map any? all?].each do |name|
        define_method(name) do |source, options = {}, &block|
          super(source, **AsTheGem.translate(options), &block)
        end
      end

      def self.translate(options)
        count = options[:in_threads] || options[:count]
        options = options.reject { |name, _| %i[in_threads count preserve_results].include?(name) }
        count ? { in_processes: count, **options } : options
      end

      # The block, called so many times at once.
      def in_processes(options = {}, &block)
        options = { count: options } unless options.is_a?(Hash)
        count = options[:count] || processor_count
        map(0...count, options.reject { |name, _| name == :count }.merge(in_processes: count), &block)
      end
      alias in_threads in_processes

      def physical_processor_count
        processor_count
      end
    end

    singleton_class.prepend(AsTheGem)
  end
end
