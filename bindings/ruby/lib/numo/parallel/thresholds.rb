# frozen_string_literal: true

module Numo
  module Parallel
    # Which arrays of a message go in band, by handle, or in a buffer of the receiver. The figures
    # are the microseconds of a result, with filling its arrays, of one run on a slow machine by
    #
    #   ruby bindings/ruby/test/parallel/measure_thresholds.rb
    module Thresholds
      # Private arrays go in band if they have fewer bytes together. In band and by handle: 616 and
      # 726 for 8 KiB, 943 and 952 for 16, 1789 and 1861 for 32, 3453 and 3380 for 64.
      ARRAYS_BYTES = 32 << 10
      # So does each private array that has fewer bytes. Eight beside one of 256 KiB: 816 and 825
      # for 2 KiB each, 903 and 810 for 4, 1092 and 934 for 8.
      ARRAY_BYTES = 8 << 10
      # The least size of a buffer. A worker's own shared memory and a buffer: 2157 and 2202 for
      # 32 KiB, 3736 and 3933 for 64, 7494 and 7170 for 128: no difference that this shows.
      BUFFER_BYTES = 64 << 10
      # An array with less than 1/LEAST_PART of a result's bytes has memory of its own. It is no
      # matter of time: an array in a buffer that the program keeps holds the whole buffer.
      LEAST_PART = 8
    end
    private_constant :Thresholds
  end
end
