# frozen_string_literal: true

module Shmarray
  # Sums, means, extremes and counts. Core makes them, wherever the array's strides put its elements: nothing is copied,
  # no element becomes an object, and other threads run meanwhile if there are many. What interrupts the thread, Ctrl-C
  # or a timeout, ends them.
  #
  # Over all elements the result is a number. Along an axis it is an array in shared memory, since those who share
  # arrays go on with it: it has a dtype, a shape and a handle, and +to_a+ makes Arrays of it.
  class Array
    # @overload sum(axis: nil)
    #   The sum of the elements; of truths how many are true.
    #
    #   The sum of whole numbers is exact. Floats are added up in pairs, as binary64, and what is rounded away is added in
    #   the end: off by at most 2⁻⁴⁸ times the sum of their magnitudes, however many they are. Of no elements it is 0.
    #   @param axis [Integer, ::Array<Integer>, nil] what is added up: one axis, several, or all elements. Negative ones
    #     count from the last.
    #   @return [Integer, Float, Complex] of all elements
    #   @return [Array] along axes: of +int64+ for truths and signed numbers, of +uint64+ for unsigned ones, else of the
    #     same dtype
    #   @raise [TypeError] for a dtype without arithmetic
    #   @raise [ArgumentError] for an axis that is not there, and along axes for a sum that its dtype cannot hold
    #   @raise [Errno::ENOSPC] when there is no room for the array
    #   @example
    #     a = Shmarray::Array.create(:uint8, [2, 3])
    #     a[nil] = [[250, 1, 2], [250, 3, 4]]
    #     a.sum # => 510
    #     a.sum(axis: 0).to_a # => [500, 4, 6]
    #     a.sum(axis: [0, 1]).to_a # => 510
    # @overload sum(init = 0, &block)
    #   As Enumerable does, element by element.
    def sum(*init, axis: nil, &block)
      enumerable?(init, axis, block) ? super(*init, &block) : reduction(:sum, axis, 0)
    end

    # The mean of the elements: of whole numbers their exact sum by their number.
    # @param axis as in {#sum}
    # @return [Float, Complex] of all elements
    # @return [Array] along axes: of +float64+, or of +complex128+ for complex numbers
    # @raise [ArgumentError] for an axis that is not there, or if there are no elements
    # @raise [TypeError, Errno::ENOSPC] as in {#sum}
    # @example
    #   a = Shmarray::Array.create(:int32, [2, 2])
    #   a[nil] = [[1, 2], [3, 5]]
    #   a.mean # => 2.75
    #   a.mean(axis: -1).to_a # => [1.5, 4.0]
    def mean(axis: nil)
      reduction(:mean, axis, 0)
    end

    # @overload min(axis: nil)
    #   The least element. If one is not a number (NaN), neither is the least.
    #   @param axis as in {#sum}
    #   @return [Integer, Float, Boolean] of all elements
    #   @return [Array] along axes: of the same dtype
    #   @raise [ArgumentError] for an axis that is not there, or if there are no elements
    #   @raise [TypeError] for complex numbers, which have no order, and for a dtype without arithmetic
    #   @raise [Errno::ENOSPC] when there is no room for the array
    #   @example
    #     a = Shmarray::Array.create(:float32, [2, 2])
    #     a[nil] = [[0.5, -2], [8, 1]]
    #     a.min # => -2.0
    #     a.min(axis: 0).to_a # => [0.5, -2.0]
    # @overload min(count, &block)
    #   As Enumerable does, element by element.
    def min(*count, axis: nil, &block)
      enumerable?(count, axis, block) ? super(*count, &block) : reduction(:min, axis, 0)
    end

    # @overload max(axis: nil)
    #   The greatest element, as {#min}.
    #   @example
    #     a = Shmarray::Array.create(:bool, [2, 2])
    #     a[0, 1] = true
    #     a.max # => true
    #     a.max(axis: 1).to_a # => [true, false]
    # @overload max(count, &block)
    #   As Enumerable does, element by element.
    def max(*count, axis: nil, &block)
      enumerable?(count, axis, block) ? super(*count, &block) : reduction(:max, axis, 0)
    end

    # @overload minmax(axis: nil)
    #   {#min} and {#max}.
    #   @return [::Array] of two
    #   @example
    #     a = Shmarray::Array.create(:int8, 3)
    #     a[0] = -5
    #     a.minmax # => [-5, 0]
    # @overload minmax(&block)
    #   As Enumerable does, element by element.
    def minmax(axis: nil, &block)
      enumerable?([], axis, block) ? super(&block) : [min(axis: axis), max(axis: axis)]
    end

    # How often 0, 1, 2 … stand among the elements: up to the greatest of them.
    #
    # Without an axis it counts all elements, whatever the shape, as +sum+ adds all up. (+Numo::NArray#bincount+ counts
    # along the last axis: +axis: -1+ here.)
    # @param minlength [Integer] how many counts there are at least
    # @param axis [Integer, ::Array<Integer>, nil] as in {#sum}; the counts then are one dimension more, the last
    # @return [Array] of +uint64+
    # @raise [TypeError] for floats and complex numbers
    # @raise [ArgumentError] for a negative element, or one too great to have counts up to it
    # @raise [Errno::ENOSPC] when there is no room for the counts
    # @example A photograph's histograms, one of each colour
    #   photo = Shmarray::Array.create(:uint8, [480, 640, 3])
    #   photo[true, 0, 2] = 255
    #   photo.bincount.shape # => [256]
    #   photo[0, 0].bincount(minlength: 2)[0..1].to_a # => [2, 0]
    #   photo.bincount(axis: [0, 1])[2, -1] # => 480
    def bincount(minlength: 0, axis: nil)
      reduction(:bincount, axis, minlength)
    end

    private

    # Whether it is called as Enumerable's method.
    def enumerable?(arguments, axis, block)
      return false if arguments.empty? && !block
      raise ArgumentError, "an axis goes with neither a block nor other arguments" unless axis.nil?

      true
    end
  end
end
