# frozen_string_literal: true

module Shmarray
  # What Ruby's own Arrays have too. Elements are those of all dimensions, in C order; an index, a
  # pattern and {#values_at} go along the first dimension.
  class Array
    # @!method ==(other)
    #   Whether the other is an array of the same shape whose elements are equal by value: 1 and 1.0
    #   are, NaN is not equal to itself. The elements are compared where they are, without objects
    #   of them.
    #
    #   Never of an Array of Ruby's or of a Numo array, for which it would be true in one direction
    #   only: compare with {#to_a}.
    #   @param other [Object]
    #   @return [Boolean]
    #   @example
    #     a = Shmarray::Array.create(:int32, 2).fill(1)
    #     b = Shmarray::Array.create(:float64, 2).fill(1)
    #     [a == b, a == b.reshape(1, 2)] # => [true, false]
    #     [a == [1, 1], a.to_a == [1, 1]] # => [false, true]

    # @!method length
    #   As {#size}: of all dimensions.
    #   @return [Integer] how many elements
    # @!method empty?
    #   @return [Boolean] whether there are no elements

    # @!method fill(value)
    #   Every element becomes the value.
    #   @param value [Object]
    #   @return [self]
    #   @raise [FrozenError] when the array is read-only
    #   @raise [TypeError, RangeError] for a value that its dtype does not have
    #   @example
    #     a = Shmarray::Array.create(:int8, 4).fill(7)
    #     a[1..2].fill(0)
    #     a.to_a # => [7, 0, 0, 7]

    # @!method map!
    #   Every element becomes what the block makes of it.
    #   @yieldparam element [Object]
    #   @return [self, Enumerator] an Enumerator without a block
    #   @raise [FrozenError, TypeError, RangeError] as {#fill}
    #   @example
    #     a = Shmarray::Array.create(:int8, [2, 2])
    #     a.map!.with_index { |_, i| i * i }.to_a # => [[0, 1], [4, 9]]

    # @!method reshape(*shape)
    #   A view of the same elements, in C order, in another shape. As in Numo, nil or true leaves
    #   one dimension open; so does -1. (Numo's +reshape+ copies.)
    #   @param shape [Integer, nil, true, ::Array] its dimensions, or an Array of them
    #   @return [Array]
    #   @raise [ArgumentError] when as many elements do not fit, or no strides reach them: then
    #     +dup+ makes a copy where they do
    #   @example
    #     a = Shmarray::Array.create(:int8, 6)
    #     a[nil] = 1..6
    #     a.reshape(2, nil).to_a # => [[1, 2, 3], [4, 5, 6]]

    # @!method name
    #   The name that the array was made with. A view has its segment's, whose name it is.
    #   @return [String, nil]
    #   @raise [SystemCallError] when the directory cannot be read
    #   @example
    #     a = Shmarray::Array.create(:int8, 3, name: "levels")
    #     Shmarray::Array.attach(a.handle).name # => "levels"

    # @!method close
    #   Lets go of the memory now, and not when the array is collected. Views, buffers and
    #   MemoryViews of it keep it, and so does a loop that goes through it. From then on each method
    #   but {#closed?} and {#inspect} is an IOError. Closing twice does nothing.
    #   @return [nil]
    #   @raise [FrozenError] for a frozen array, which other Ractors may have
    #   @example
    #     a = Shmarray::Array.create(:int8, 3)
    #     handle = a.handle
    #     a.close
    #     [a.closed?, (Shmarray::Array.attach(handle) rescue $!.class)] # => [true, Errno::ENOENT]
    # @!method closed?
    #   @return [Boolean]

    # Whether the other has the same dtype too, and so the same {#hash}. As a Hash's key an array
    # must not be written to, by any process.
    # @param other [Object]
    # @return [Boolean]
    # @example
    #   a = Shmarray::Array.create(:int32, 2).fill(1)
    #   b = Shmarray::Array.create(:float64, 2).fill(1)
    #   [a.eql?(b), a.eql?(a.dup), a.hash == a.dup.hash] # => [false, true, true]
    def eql?(other)
      other.is_a?(Array) && dtype == other.dtype && self == other
    end

    # Of dtype, shape and elements. It changes with the elements, as an Array's does.
    # @return [Integer]
    def hash
      [Array, dtype, shape, digest].hash
    end

    # The first element, or the first ones.
    # @param count [Integer, nil]
    # @return [Object, ::Array] nil of an array without elements
    # @example
    #   a = Shmarray::Array.create(:int8, [2, 2])
    #   a[1] = 5
    #   [a.first, a.first(3), a.last, a.last(3)] # => [0, [0, 0, 5], 5, [0, 5, 5]]
    def first(count = (one = true; 1))
      found = elements(0, least(count))
      one ? found.first : found
    end

    # The last element, or the last ones, as {#first}.
    # @param count [Integer, nil]
    # @return [Object, ::Array]
    def last(count = (one = true; 1))
      count = least(count)
      found = elements(size - count, count)
      one ? found.first : found
    end

    # An Array of what each index chooses along the first dimension: elements, or views of rows.
    # @param indices [Integer, Range] a Range stands for all of its indices
    # @return [::Array]
    # @raise [IndexError] for an Integer that is not in the array
    # @example
    #   a = Shmarray::Array.create(:int8, 5)
    #   a[nil] = (10..50) % 10
    #   a.values_at(0, -1, 1..2) # => [10, 50, 20, 30]
    def values_at(*indices)
      indices.flat_map { |index| index.is_a?(Integer) ? [self[index]] : self[index].deconstruct }
    end

    # The first dimension, for patterns: elements, or views of rows.
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

    # Facts for patterns: +dtype+, +shape+, +strides+, +ndim+, +size+, +name+ and +readonly+.
    # @param keys [::Array<Symbol>, nil] those that the pattern asks for; nil for all
    # @return [Hash{Symbol => Object}]
    # @example
    #   case Shmarray::Array.create(:uint8, [480, 640, 3])
    #   in { dtype: "|u1", shape: [height, width, 3] }
    #     [height, width] # => [480, 640]
    #   end
    def deconstruct_keys(keys)
      asked = keys ? keys & FACTS.keys : FACTS.keys
      asked.to_h { |key| [key, public_send(FACTS.fetch(key))] }
    end

    FACTS = { dtype: :dtype, shape: :shape, strides: :strides, ndim: :ndim, size: :size,
              name: :name, readonly: :readonly? }.freeze
    private_constant :FACTS

    # The elements in JSON's arrays, as {#to_a} nests them. It needs +require "json"+, and refuses
    # what that refuses: NaN and infinities.
    # @return [String]
    # @example
    #   require "json"
    #   JSON.generate(Shmarray::Array.create(:float32, [1, 2])) # => "[[0.0,0.0]]"
    def to_json(*state)
      to_a.to_json(*state)
    end

    private

    # So many elements, or all if there are not so many.
    def least(count)
      raise TypeError, "#{count.inspect} is not an Integer" unless count.is_a?(Integer)
      raise ArgumentError, "negative count: #{count}" if count.negative?

      [count, size].min
    end

    # Ruby calls it for Marshal.dump.
    def marshal_dump
      raise TypeError, "a Shmarray::Array is not marshalled: send its handle, which any process " \
                       "can attach while somebody holds the array, its handle_to_send, which " \
                       "holds it until it is attached, or to_a, a copy"
    end
  end
end
