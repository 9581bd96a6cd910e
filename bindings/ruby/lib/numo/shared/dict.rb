# frozen_string_literal: true

module Numo
  module Shared
    # A dictionary whose arrays are Numo's: {Shmarray::Dict} has the methods.
    #
    # @example
    #   means = Numo::Shared::Dict.new({ red: Numo::SFloat[1, 2], green: Numo::SFloat[3] })
    #   means["red"].to_a # => [1.0, 2.0]
    #   means.values.offsets.to_a # => [0, 2, 3]
    class Dict < Shmarray::Dict
      # Arrays are Numo's.
      LIST = List
      private_constant :LIST
    end
  end
end
