# frozen_string_literal: true

module Numo
  module Shared
    # A list whose arrays are Numo's: {Shmarray::List} has the methods.
    #
    # Arrays of a dtype without a class in Numo raise a TypeError when they are read; a
    # {Shmarray::List} of the same handle reads them.
    #
    # @example
    #   list = Numo::Shared::List.new([Numo::SFloat[1, 2], nil, Numo::SFloat[3]])
    #   list[0].to_a # => [1.0, 2.0]
    #   list.values.sum # => 6.0
    #   list.offsets.to_a # => [0, 2, 2, 3]
    class List < Shmarray::List
      # Arrays are Numo's.
      OF_NUMO = true
      private_constant :OF_NUMO
    end
  end
end
