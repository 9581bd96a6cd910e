# frozen_string_literal: true

module Numo
  module Shared
    # A channel whose arrays are Numo's: {Shmarray::Channel} has the methods.
    #
    # An array of a message or a loan is valid inside its block. Afterwards it is empty, since its
    # slot gets other messages. A view of it is not: copy what you need of one.
    #
    # @example
    #   frames = Numo::Shared::Channel.create("frames", Numo::SFloat, [2, 3])
    #   frames.loan { |frame| frame.fill(0.5) }
    #   frames.receive { |frame| frame.sum } # => 3.0
    class Channel < Shmarray::Channel
      class << self
        # As {Shmarray::Channel.create}, with one of Numo's classes as the dtype.
        # @param type [Class]
        # @return [Channel]
        def create(name, type, shape, **options)
          super(name, Shared.send(:dtype_of, type), shape, **options)
        end
      end

      private

      def for_block(array)
        Shared.attach(array)
      end

      def withdraw(_array, given)
        Shared.send(:empty, given)
      end
    end
  end
end
