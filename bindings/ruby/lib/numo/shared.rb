# frozen_string_literal: true

begin
  require "numo/narray" # before our extension: it looks for Numo's classes
rescue LoadError => error
  raise unless error.path == "numo/narray"

  raise LoadError,
        "numo/shared needs Numo::NArray: install the gem numo-narray or the gem numo-narray-alt"
end

require "shmarray"
Shmarray.send(:bind_numo)
require "numo/shared/channel" if defined?(Shmarray::Channel)
require "numo/shared/guards"
require "numo/shared/list"
require "numo/shared/dict"
require "numo/shared/npy"
require "numo/shared/reference"

module Numo
  # Numo arrays in shared memory. They are of Numo's stock classes, so Numo takes them everywhere,
  # and all that it does in place stays shared. Views keep the memory alive.
  #
  # Numo::NArray comes from numo-narray or from numo-narray-alt. The gem depends on neither, since
  # the two exclude each other. Every class of numbers from Numo::Int8 to Numo::DComplex can be
  # shared, but two of Numo's classes cannot. The elements of Numo::Bit share bytes, so processes
  # would lose each other's writes. The elements of Numo::RObject are objects of one process.
  #
  # @example A child writes, nothing is marshalled
  #   a = Numo::Shared.new(Numo::Int32, [2, 3])
  #   Process.wait(fork { a[1, true].fill(7) })
  #   a.to_a # => [[0, 0, 0], [7, 7, 7]]
  module Shared
    # The version of the gem, which is Shmarray's.
    VERSION = Shmarray::VERSION

    # @!method self.new(type, *shape, **options)
    #   Creates an array of zeros in shared memory.
    #   @param type [Class] one of Numo's classes of numbers
    #   @param shape [Integer, Array<Integer>] elements in each dimension: +2, 3+ as for Numo's own,
    #     or +[2, 3]+
    #   @option options [String, nil] :name (nil) a name by which others can {.attach} it
    #   @option options [Boolean] :persist (false) whether it stays when no process holds it, until
    #     {.unlink}; needs a name
    #   @option options [:C, :F] :order (:C) the dimension whose elements lie side by side: the
    #     last, or the first (then it is a view)
    #   @option options [Integer] :mode (0o600) the permissions of its file
    #   @option options [Boolean] :uninitialized (false) whether the elements may have any value
    #   @return [Numo::NArray] of that class
    #   @raise [TypeError, ArgumentError] if the class, the shape or the name is invalid
    #   @raise [Errno::EEXIST] if the name is taken
    #   @raise [Errno::ENOSPC] if shared memory is full
    #   @example
    #     a = Numo::Shared.new(Numo::Int32, [2, 3, 3])
    #     [a.class, a.shape] # => [Numo::Int32, [2, 3, 3]]

    # @!method self.share(array)
    #   Returns a shared copy, in C order and in one pass; or the array itself if it is shared
    #   already.
    #
    #   Other Ruby threads run while a large array is copied. They cannot free or reinitialize it
    #   meanwhile.
    #   @param array [Numo::NArray]
    #   @return [Numo::NArray] of the same class
    #   @raise [TypeError] for Numo::Bit, Numo::RObject and objects that are no arrays
    #   @raise [ArgumentError] if Numo has given the array no memory yet
    #   @raise [Errno::ENOSPC] if shared memory is full
    #   @example
    #     a = Numo::Shared.share(Numo::DFloat[1.5, 2.5])
    #     Numo::Shared.share(a).equal?(a) # => true

    # @!method self.shared?(array)
    #   Returns whether its elements are in shared memory. Those of a view are if its base's are.
    #   @param array [Object]
    #   @return [Boolean]
    #   @example
    #     a = Numo::Shared.new(Numo::UInt8, 3)
    #     [a, a[1..2], a.dup].map { |each| Numo::Shared.shared?(each) } # => [true, true, false]

    # @!method self.handle(array)
    #   Returns the line of text by which any process on the machine can {.attach} the array while
    #   some process holds it. The handle itself holds nothing.
    #   @param array [Numo::NArray] in shared memory; also a strided, reversed or transposed view
    #   @return [String]
    #   @raise [ArgumentError] for a private array, and for a view by an index array, which has no
    #     strides
    #   @example
    #     a = Numo::Shared.new(Numo::Int32, [2, 3]).seq
    #     Numo::Shared.attach(Numo::Shared.handle(a.transpose)).to_a # => [[0, 3], [1, 4], [2, 5]]

    # @!method self.handle_to_send(array)
    #   Returns a handle that holds the array until it is attached for the first time, or given to
    #   {Shmarray.discard}, or the last process of this process's family has ended. A family is the
    #   first process that uses the library and all that are forked from it afterwards; a program
    #   that is started by exec or spawn has a family of its own.
    #   @param array [Numo::NArray] in shared memory
    #   @return [String]
    #   @raise [ArgumentError] as for {.handle}
    #   @example
    #     text = Numo::Shared.handle_to_send(Numo::Shared.share(Numo::Int8[1, 2]))
    #     GC.start
    #     Numo::Shared.attach(text).to_a # => [1, 2]

    # @!method self.attach(handle_or_name, readonly: false)
    #   Attaches the array of a handle or of a name, as a Numo array. Nothing is copied.
    #   @param handle_or_name [String, Shmarray::Array]
    #   @param readonly [Boolean] whether it is frozen, and its memory protected against writes in
    #     this process
    #   @return [Numo::NArray] of the class of its dtype
    #   @raise [ArgumentError] if the handle is invalid, or does not fit its segment
    #   @raise [TypeError] for a dtype without a class in Numo: bool, float16 and bytes
    #   @raise [Errno::ENOENT, Shmarray::StaleHandleError] if the array is gone
    #   @raise [Errno::EACCES] if this user may not open the segment
    #   @example
    #     a = Numo::Shared.new(Numo::SFloat, 2, name: "weights")
    #     fixed = Numo::Shared.attach("weights", readonly: true)
    #     a[0] = 0.5
    #     [fixed[0], fixed.frozen?] # => [0.5, true]

    # @!method self.unlink(name)
    #   Does the same as {Shmarray.unlink}.
    #   @return [nil]
    # @!method self.segments
    #   Does the same as {Shmarray.segments}.
    #   @return [Array<Hash{Symbol => Object}>]
    # @!method self.sweep
    #   Does the same as {Shmarray.sweep}.
    #   @return [Hash{Symbol => Integer}]

    # These are for the guards and for Numo::Parallel.
    private_class_method :guarded?
    private_class_method :copied?, :copy_to, :copy_if_room, :dtype_of, :shareable?, :unfilled?
  end
end

Numo.autoload :Parallel, "numo/parallel"
