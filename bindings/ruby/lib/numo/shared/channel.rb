# frozen_string_literal: true

module Numo
  module Shared
    # A channel whose arrays are Numo's: {Shmarray::Channel} has the methods.
    #
    # An array of a message or a loan, and its views, are valid inside their block. Afterwards they
    # have no elements, since their slot gets other messages: Numo raises a RuntimeError when one is
    # read or written. {Shmarray::Channel::Delivery#keep} keeps them, and
    # {Shmarray::Channel::Delivery#copy} makes a private array.
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

      # Blocks get arrays of Numo's.
      OF_NUMO = true
      private_constant :OF_NUMO
    end
  end
end
