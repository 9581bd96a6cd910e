# frozen_string_literal: true

module Shmarray
  # Sums, means, extremes and counts, for any strides. They copy nothing and make no Ruby object of
  # an element. Over large arrays they run without Ruby's lock, so other threads run meanwhile, and
  # Ctrl-C, Timeout and Thread#raise end them.
  #
  # Over all elements the result is a number. Along axes it is a new array in shared memory and not
  # a Ruby Array: it has a dtype and a shape, it can be reduced again or passed to another process,
  # and +to_a+ converts it to Ruby Arrays.
  class Array
    # @overload sum(axis: nil)
    #   Returns the sum of the elements; +true+ counts as 1. The sum of no elements is 0.
    #
    #   The sum of Integers is exact. Floats are added as binary64 by pairwise and compensated
    #   summation: the error is at most 2⁻⁴⁸ times the sum of their magnitudes, for up to
    #   10¹¹ elements.
    #   @param axis [Integer, ::Array<Integer>, nil] the axes to add along; nil for all elements.
    #     Negative axes count from the last.
    #   @return [Integer, Float, Complex] over all elements
    #   @return [Array] along axes: of +int64+ for +bool+ and signed integers, of +uint64+ for
    #     unsigned integers, else of the same dtype
    #   @raise [TypeError] for a dtype without arithmetic
    #   @raise [ArgumentError] if an axis does not exist, or along axes if a sum does not fit the
    #     dtype
    #   @raise [Errno::ENOSPC] if there is no room for the array
    #   @example
    #     a = Shmarray::Array.create(:uint8, [2, 3])
    #     a[nil] = [[250, 1, 2], [250, 3, 4]]
    #     a.sum # => 510
    #     a.sum(axis: 0).to_a # => [500, 4, 6]
    #     a.sum(axis: [0, 1]).to_a # => 510
    # @overload sum(init = 0, &block)
    #   Does as Enumerable does, element by element.
    def sum(*init, axis: nil, &block)
      enumerable?(init, axis, block) ? super(*init, &block) : reduction(:sum, axis, 0)
    end

    # Returns the mean of the elements: their sum, as {#sum} adds them, divided by their number.
    # @param axis as in {#sum}
    # @return [Float, Complex] over all elements
    # @return [Array] along axes: of +float64+, or of +complex128+ for complex numbers
    # @raise [ArgumentError] if an axis does not exist, or there are no elements
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
    #   Returns the minimum of the elements; NaN if one of them is NaN.
    #   @param axis as in {#sum}
    #   @return [Integer, Float, Boolean] over all elements
    #   @return [Array] along axes: of the same dtype
    #   @raise [ArgumentError] if an axis does not exist, or there are no elements
    #   @raise [TypeError] for complex numbers, which have no order, and for a dtype without
    #     arithmetic
    #   @raise [Errno::ENOSPC] if there is no room for the array
    #   @example
    #     a = Shmarray::Array.create(:float32, [2, 2])
    #     a[nil] = [[0.5, -2], [8, 1]]
    #     a.min # => -2.0
    #     a.min(axis: 0).to_a # => [0.5, -2.0]
    # @overload min(count, &block)
    #   Does as Enumerable does, element by element.
    def min(*count, axis: nil, &block)
      enumerable?(count, axis, block) ? super(*count, &block) : reduction(:min, axis, 0)
    end

    # @overload max(axis: nil)
    #   Returns the maximum of the elements; NaN if one of them is NaN. Arguments and errors are
    #   those of {#min}.
    #   @example
    #     a = Shmarray::Array.create(:bool, [2, 2])
    #     a[0, 1] = true
    #     a.max # => true
    #     a.max(axis: 1).to_a # => [true, false]
    # @overload max(count, &block)
    #   Does as Enumerable does, element by element.
    def max(*count, axis: nil, &block)
      enumerable?(count, axis, block) ? super(*count, &block) : reduction(:max, axis, 0)
    end

    # @overload minmax(axis: nil)
    #   Returns {#min} and {#max}.
    #   @return [::Array] of two
    #   @example
    #     a = Shmarray::Array.create(:int8, 3)
    #     a[0] = -5
    #     a.minmax # => [-5, 0]
    # @overload minmax(&block)
    #   Does as Enumerable does, element by element.
    def minmax(axis: nil, &block)
      enumerable?([], axis, block) ? super(&block) : [min(axis: axis), max(axis: axis)]
    end

    # Counts how many elements are 0, 1, 2 …, up to their maximum.
    #
    # Without an axis it counts all elements of any shape, as {#sum} adds all.
    # (+Numo::NArray#bincount+ counts along the last axis, which is +axis: -1+ here.)
    # @param minlength [Integer] the least number of counts
    # @param axis [Integer, ::Array<Integer>, nil] as in {#sum}; the counts are the last dimension
    #   of the result
    # @return [Array] of +uint64+
    # @raise [TypeError] for floats and complex numbers
    # @raise [ArgumentError] if an element is negative, or so large that there is no memory for the
    #   counts
    # @raise [Errno::ENOSPC] if there is no room for the counts
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

    # Returns whether the call is meant for Enumerable's method.
    def enumerable?(arguments, axis, block)
      return false if arguments.empty? && !block
      raise ArgumentError, "axis: excludes a block and other arguments" unless axis.nil?

      true
    end
  end
end
