# frozen_string_literal: true

module Shmarray
  # Methods that Ruby's own Arrays have, too. Elements are those of all dimensions, in C order; an
  # index, a pattern and {#values_at} go along the first dimension.
  class Array
    # @!method ==(other)
    #   Returns whether the other is an array of the same shape with equal elements. They are
    #   compared by value: 1 equals 1.0, and NaN does not equal itself. They are compared in place,
    #   without Ruby objects for them.
    #
    #   A Ruby Array or a Numo array is never equal: it would be so in one direction only. Compare
    #   {#to_a} with it.
    #   @param other [Object]
    #   @return [Boolean]
    #   @example
    #     a = Shmarray::Array.create(:int32, 2).fill(1)
    #     b = Shmarray::Array.create(:float64, 2).fill(1)
    #     [a == b, a == b.reshape(1, 2)] # => [true, false]
    #     [a == [1, 1], a.to_a == [1, 1]] # => [false, true]

    # @!method length
    #   The same as {#size}: of all dimensions.
    #   @return [Integer] how many elements
    # @!method empty?
    #   @return [Boolean] whether there are no elements

    # @!method fill(value)
    #   Sets every element to the value.
    #   @param value [Object]
    #   @return [self]
    #   @raise [FrozenError] if the array is read-only
    #   @raise [TypeError, RangeError] if the value does not fit the dtype
    #   @example
    #     a = Shmarray::Array.create(:int8, 4).fill(7)
    #     a[1..2].fill(0)
    #     a.to_a # => [7, 0, 0, 7]

    # @!method map!
    #   Replaces every element by what the block returns for it.
    #   @yieldparam element [Object]
    #   @return [self, Enumerator] an Enumerator without a block
    #   @raise [FrozenError, TypeError, RangeError] as {#fill}
    #   @example
    #     a = Shmarray::Array.create(:int8, [2, 2])
    #     a.map!.with_index { |_, i| i * i }.to_a # => [[0, 1], [4, 9]]

    # @!method reshape(*shape)
    #   Returns a view of the same elements, in C order, in another shape. As in Numo, nil or true
    #   leaves one dimension open; so does -1. (Numo's +reshape+ copies.)
    #   @param shape [Integer, nil, true, ::Array] its dimensions, or an Array of them
    #   @return [Array]
    #   @raise [ArgumentError] if the number of elements differs, or no strides reach them: then
    #     +dup+ makes a copy in which they do
    #   @example
    #     a = Shmarray::Array.create(:int8, 6)
    #     a[nil] = 1..6
    #     a.reshape(2, nil).to_a # => [[1, 2, 3], [4, 5, 6]]

    # @!method name
    #   Returns the name that the array was created with. A view returns the name of its segment.
    #   @return [String, nil]
    #   @raise [SystemCallError] if the directory cannot be read
    #   @example
    #     a = Shmarray::Array.create(:int8, 3, name: "levels")
    #     Shmarray::Array.attach(a.handle).name # => "levels"

    # @!method close
    #   Releases the memory now instead of when the array is collected. Views, buffers and
    #   MemoryViews of it keep the memory, and so does a loop over it. Afterwards each method but
    #   {#closed?} and {#inspect} raises an IOError. Closing twice does nothing.
    #   @return [nil]
    #   @raise [FrozenError] if the array is frozen, since other Ractors may have it
    #   @example
    #     a = Shmarray::Array.create(:int8, 3)
    #     handle = a.handle
    #     a.close
    #     [a.closed?, (Shmarray::Array.attach(handle) rescue $!.class)] # => [true, Errno::ENOENT]
    # @!method closed?
    #   @return [Boolean]

    # Returns whether {#==} holds and the dtypes are the same. Such arrays have the same {#hash}.
    # While an array is a Hash's key, no process may write to it.
    # @param other [Object]
    # @return [Boolean]
    # @example
    #   a = Shmarray::Array.create(:int32, 2).fill(1)
    #   b = Shmarray::Array.create(:float64, 2).fill(1)
    #   [a.eql?(b), a.eql?(a.dup), a.hash == a.dup.hash] # => [false, true, true]
    def eql?(other)
      other.is_a?(Array) && dtype == other.dtype && self == other
    end

    # Returns a hash of dtype, shape and elements. It changes with the elements, as an Array's does.
    # @return [Integer]
    def hash
      [Array, dtype, shape, digest].hash
    end

    # Returns the first element, or the first +count+ elements.
    # @param count [Integer, nil]
    # @return [Object, ::Array] nil if the array has no elements
    # @example
    #   a = Shmarray::Array.create(:int8, [2, 2])
    #   a[1] = 5
    #   [a.first, a.first(3), a.last, a.last(3)] # => [0, [0, 0, 5], 5, [0, 5, 5]]
    def first(count = (one = true; 1))
      found = elements(0, least(count))
      one ? found.first : found
    end

    # Returns the last element, or the last +count+ elements.
    # @param count [Integer, nil]
    # @return [Object, ::Array]
    def last(count = (one = true; 1))
      count = least(count)
      found = elements(size - count, count)
      one ? found.first : found
    end

    # Returns an Array of what each index selects along the first dimension: elements, or views of
    # rows.
    # @param indices [Integer, Range] a Range stands for all of its indices
    # @return [::Array]
    # @raise [IndexError] if an Integer is out of bounds
    # @example
    #   a = Shmarray::Array.create(:int8, 5)
    #   a[nil] = (10..50) % 10
    #   a.values_at(0, -1, 1..2) # => [10, 50, 20, 30]
    def values_at(*indices)
      indices.flat_map { |index| index.is_a?(Integer) ? [self[index]] : self[index].deconstruct }
    end

    # Returns the first dimension, for patterns: elements, or views of rows.
    # @return [::Array]
    # @example
    #   a = Shmarray::Array.create(:int8, [3, 2])
    #   a[0, 1] = 7
    #   case a
    #   in [[_, x], *rest]
    #     [x, rest.size] # => [7, 2]
    #   end
    def deconstruct
      ndim > 1 ? ::Array.new(shape.first) { |at| self[at] } : [*to_a]
    end

    # Returns facts for patterns: +dtype+, +shape+, +strides+, +ndim+, +size+, +name+ and
    # +readonly+.
    # @param keys [::Array<Symbol>, nil] the keys that the pattern asks for; nil for all
    # @return [Hash{Symbol => Object}]
    # @example
    #   case Shmarray::Array.create(:uint8, [480, 640, 3])
    #   in { dtype: "|u1", shape: [height, width, 3] }
    #     [height, width] # => [480, 640]
    #   end
    def deconstruct_keys(keys)
      wanted = keys ? keys & PATTERN_KEYS.keys : PATTERN_KEYS.keys
      wanted.to_h { |key| [key, public_send(PATTERN_KEYS.fetch(key))] }
    end

    PATTERN_KEYS = { dtype: :dtype, shape: :shape, strides: :strides, ndim: :ndim, size: :size,
              name: :name, readonly: :readonly? }.freeze
    private_constant :PATTERN_KEYS

    # Returns the elements as JSON arrays, nested as {#to_a} nests them. It needs +require "json"+,
    # which refuses NaN and infinities.
    # @return [String]
    # @example
    #   require "json"
    #   JSON.generate(Shmarray::Array.create(:float32, [1, 2])) # => "[[0.0,0.0]]"
    def to_json(*state)
      to_a.to_json(*state)
    end

    private

    # Returns the count, or the number of elements if that is less.
    def least(count)
      raise TypeError, "#{count.inspect} is not an Integer" unless count.is_a?(Integer)
      raise ArgumentError, "negative count: #{count}" if count.negative?

      [count, size].min
    end

    # Refuses Marshal.dump, which calls this.
    def marshal_dump
      raise TypeError, "a Shmarray::Array is not marshalled: send its handle, which any process " \
                       "can attach while somebody holds the array, its handle_to_send, which " \
                       "holds it until it is attached, or to_a, a copy"
    end
  end
end
