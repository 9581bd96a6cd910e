# frozen_string_literal: true

# Loaded before another project's tests of Numo: every array that they create is in shared memory.
#
#   ruby -I bindings/ruby/foreign -r shared_everywhere test/narray_test.rb
#
# At its end the program prints how many arrays that were. None is a failure.

require "numo/shared"

module SharedEverywhere
  CLASSES = %i[
    Int8 Int16 Int32 Int64 UInt8 UInt16 UInt32 UInt64 SFloat DFloat SComplex DComplex
  ].map { |name| Numo.const_get(name) }.freeze
  MAKERS = %i[[] zeros ones cast asarray from_binary eye linspace logspace].freeze
  COUNTS = Hash.new(0)

  # Methods of the classes themselves. Other Ractors may not use what is shared here.
  module Makers
    MAKERS.each do |name|
      class_eval <<~RUBY, __FILE__, __LINE__ + 1
        def #{name}(...)
          SharedEverywhere.share(super, :"#{name}")
        end
      RUBY
    end

    def new(*shape)
      return super unless SharedEverywhere.here?

      begin
        shape = shape.first if shape.size == 1 && shape.first.is_a?(Array)
        Numo::Shared.new(self, shape).tap { COUNTS[:new] += 1 }
      rescue ArgumentError, TypeError
        super # which is to say what is wrong
      end
    end
  end

  def self.here?
    !defined?(Ractor) || Ractor.current == Ractor.main
  end

  def self.share(made, maker)
    return made unless here? && CLASSES.include?(made.class)
    return made if made.frozen? || Numo::Shared.shared?(made)

    Numo::Shared.share(made).tap { COUNTS[maker] += 1 }
  rescue ArgumentError
    made # without elements yet
  end

  CLASSES.each { |type| type.singleton_class.prepend(Makers) }

  main = Process.pid
  at_exit do
    next unless Process.pid == main

    $stderr.puts "#{COUNTS.values.sum} arrays were made in shared memory: #{COUNTS}"
    $stdout.flush # what the tests said
    exit!(1) if COUNTS.empty?
  end
end
