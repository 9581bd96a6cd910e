# frozen_string_literal: true

module Shmarray
  # An array of elements of one dtype in shared memory, in any number of dimensions.
  #
  # Elements are Integers, Floats, Complex numbers or true and false; of a dtype outside {DTYPES}
  # they are binary Strings. Shapes count elements, strides and offsets count bytes, both as in
  # NumPy. A view has the memory of its base, and keeps it alive. +dup+ and +clone+ create a new
  # array in shared memory that only this process has, with the same elements in C order. The copy
  # can be written to, even if this array is read-only.
  #
  # A frozen array can be passed to other Ractors.
  class Array
    include Enumerable # over all elements in C order; to_a nests them by dimension

    # The most elements that inspect prints.
    INSPECT_LIMIT = 100
    private_constant :INSPECT_LIMIT

    # @!method self.create(dtype, *shape, **options)
    #   Creates an array of zeros. {.new} is the same.
    #   @param dtype [Symbol, String] a name such as +:float32+, or a type string such as +"<f4"+
    #     ({DTYPES})
    #   @param shape [Integer, ::Array<Integer>] elements in each dimension: +2, 3+ or +[2, 3]+
    #   @option options [String, nil] :name (nil) a name by which others can {.attach} it
    #   @option options [Boolean] :persist (false) whether it stays when no process holds it, until
    #     {Shmarray.unlink}; needs a name
    #   @option options [:C, :F] :order (:C) the dimension whose elements lie side by side: the
    #     last, or the first
    #   @option options [Integer] :mode (0o600) the permissions of its file
    #   @option options [Boolean] :uninitialized (false) whether the elements may have any value
    #   @return [Array]
    #   @raise [TypeError, ArgumentError] if the dtype, the shape or the name is invalid
    #   @raise [Errno::EEXIST] if the name is taken
    #   @raise [Errno::ENOSPC] if shared memory is full
    #   @example
    #     a = Shmarray::Array.create(:float32, [2, 3])
    #     a.to_a # => [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]

    # @!method self.new(dtype, *shape, **options)
    #   Does the same as {.create}.
    #   @return [Array]

    # @!method self.attach(handle_or_name, readonly: false)
    #   Attaches the array of a handle or of a name. Nothing is copied.
    #   @param handle_or_name [String]
    #   @param readonly [Boolean] whether its memory is protected against writes in this process
    #   @return [Array]
    #   @raise [ArgumentError] if the handle is invalid, or does not fit its segment
    #   @raise [Errno::ENOENT, StaleHandleError] if the array is gone
    #   @raise [Errno::EACCES] if this user may not open the segment
    #   @example
    #     a = Shmarray::Array.create(:int32, 3)
    #     b = Shmarray::Array.attach(a.handle)
    #     b[0] = 7
    #     a.to_a # => [7, 0, 0]

    # @!method self.wrap(exporter)
    #   Returns an array of the elements of a Numo array, of an IO::Buffer, or of any object that
    #   exports a MemoryView: over the same memory if that is shared, else a shared copy, in one
    #   pass.
    #   @param exporter [Numo::NArray, IO::Buffer, Object] an object of Numo, of Fiddle, of other
    #     gems
    #   @return [Array]
    #   @raise [TypeError] if it exports no MemoryView
    #   @raise [ArgumentError] if its elements are not numbers of one kind
    #   @raise [Errno::ENOSPC] if shared memory is full
    #   @example
    #     require "fiddle"
    #     a = Shmarray::Array.wrap(Fiddle::Pointer["hello"])
    #     a.to_bytes # => "hello"

    # @!method [](*index)
    #   Returns an element, or a view.
    #   @param index [Integer, Range, Enumerator::ArithmeticSequence, nil, true] one for each
    #     dimension; dimensions without one are whole, as with nil and true. Negative Integers count
    #     from the end.
    #   @return [Object, Array] the element if there is an Integer for every dimension
    #   @raise [IndexError] if an index is out of bounds
    #   @raise [TypeError] for anything else
    #   @example
    #     a = Shmarray::Array.create(:int32, [2, 3])
    #     a[1] = [4, 5, 6]
    #     a[1, 2] # => 6
    #     a[1, (0..) % 2].to_a # => [4, 6]
    #     a[true, -1].to_a # => [0, 6]

    # @!method []=(*index, value)
    #   Writes an element, or all that an index selects.
    #   @param index as in {#[]}
    #   @param value [Object, ::Array, Range, Array, Numo::NArray] one element for all; Arrays, a
    #     Range or its steps; an array of the same shape and dtype. Numo's bits and objects are
    #     converted.
    #   @raise [FrozenError] if the array is read-only
    #   @raise [RangeError] if a number does not fit the dtype
    #   @raise [ArgumentError, TypeError, IndexError] if index or value does not fit the array
    #   @example
    #     a = Shmarray::Array.create(:uint8, [2, 2])
    #     a[nil] = 1
    #     a[0, 1] = 255
    #     a[1] = 8..9
    #     a.to_a # => [[1, 255], [8, 9]]

    # @!method each
    #   Yields every element, in C order.
    #   @yieldparam element [Object]
    #   @return [self, Enumerator] an Enumerator without a block, which knows its size
    #   @example
    #     a = Shmarray::Array.create(:int8, [2, 2])
    #     a[1] = 3
    #     a.each.with_index.to_a # => [[0, 0], [0, 1], [3, 2], [3, 3]]

    # @!method to_a
    #   Returns all elements, nested by dimension; without dimensions the element.
    #   @return [::Array]
    #   @example
    #     Shmarray::Array.create(:bool, [1, 2]).to_a # => [[false, false]]

    # @!method to_bytes
    #   Returns a copy of the elements' bytes, in C order.
    #   @return [String] binary
    #   @example
    #     a = Shmarray::Array.create(:uint16, 2)
    #     a[1] = 258
    #     a.to_bytes # => "\x00\x00\x02\x01"

    # @!method shape
    #   @return [::Array<Integer>] elements in each dimension
    # @!method strides
    #   @return [::Array<Integer>] bytes from one element to the next in each dimension
    # @!method ndim
    #   @return [Integer] how many dimensions
    # @!method size
    #   @return [Integer] how many elements
    # @!method dtype
    #   @return [String] the type string
    #   @example
    #     Shmarray::Array.create(:complex64, []).dtype # => "<c8"

    # @!method handle
    #   Returns the line of text by which any process on the machine can {.attach} the array while
    #   some process holds it: dtype, shape, strides, offset and segment. The handle itself holds
    #   nothing.
    #   @return [String]
    #   @example
    #     require "json"
    #     a = Shmarray::Array.create(:int32, [2, 3])
    #     facts = JSON.parse(a.transpose.handle)
    #     facts.values_at("dtype", "shape", "strides") # => ["<i4", [3, 2], [4, 12]]

    # @!method handle_to_send
    #   Returns a handle that holds the array until it is attached for the first time, or given to
    #   {Shmarray.discard}, or the last process of this process's family has ended. A family is the
    #   first process that uses the library and all that are forked from it afterwards; a program
    #   that is started by exec or spawn has a family of its own.
    #   @return [String]
    #   @raise [Errno::ENOSPC] if shared memory is full
    #   @example
    #     text = Shmarray::Array.create(:int32, 3).handle_to_send
    #     GC.start
    #     Shmarray::Array.attach(text).shape # => [3]

    # @!method readonly?
    #   @return [Boolean] whether its memory is protected against writes in this process

    # @!method transpose
    #   Returns a view with the dimensions in the opposite order.
    #   @return [Array]
    #   @example
    #     Shmarray::Array.create(:int8, [2, 3, 4]).transpose.shape # => [4, 3, 2]

    # @!method view(shape, strides, offset = 0)
    #   Returns a view of any layout inside the memory that this array spans.
    #   @param shape [Integer, ::Array<Integer>] elements
    #   @param strides [Integer, ::Array<Integer>] bytes; 0 repeats, negative ones go backwards
    #   @param offset [Integer] bytes from this array's first element to the view's
    #   @return [Array]
    #   @raise [ArgumentError] if an element would lie outside that memory
    #   @example
    #     a = Shmarray::Array.create(:uint8, 4)
    #     a[nil] = [1, 2, 3, 4]
    #     a.view(2, -2, 3).to_a # => [4, 2]

    # Returns the elements as text, nested by dimension.
    # @return [String]
    def to_s
      to_a.to_s
    end

    # @return [String] dtype, shape, and the elements if they are few; or that it is closed
    # @example
    #   Shmarray::Array.create(:int8, 2).inspect # => "#<Shmarray::Array |i1 [2] [0, 0]>"
    def inspect
      return "#<#{self.class} closed>" if closed?

      elements = size > INSPECT_LIMIT ? "…" : to_s
      "#<#{self.class} #{dtype} #{shape} #{elements}>"
    end
  end
end
