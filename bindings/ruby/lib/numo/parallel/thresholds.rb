# frozen_string_literal: true

module Numo
  module Parallel
    # Which arrays of a message go in band, by handle, or in a buffer of the receiver. This measures
    # what each choice takes, on a machine that does nothing else:
    #
    #   ruby bindings/ruby/test/parallel/measure_thresholds.rb
    module Thresholds
      # Private arrays go in band if they have fewer bytes together: that is faster.
      ARRAYS_BYTES = 32 << 10
      # So does each private array that has fewer bytes.
      ARRAY_BYTES = 8 << 10
      # The least size of a buffer. For smaller results a buffer saves nothing: a worker's own
      # shared memory costs no more.
      BUFFER_BYTES = 64 << 10
      # An array with less than 1/LEAST_PART of a result's bytes has memory of its own. It is no
      # matter of time: an array in a buffer that the program keeps holds the whole buffer.
      LEAST_PART = 8
    end
    private_constant :Thresholds
  end
end
