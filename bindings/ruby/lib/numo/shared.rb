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
require "numo/shared/guards"
require "numo/shared/reference"

module Numo
  # Numo arrays in shared memory: of the stock classes, so that Numo takes them everywhere, and all
  # that it does in place stays shared. Views keep the memory alive.
  #
  # Numo::NArray comes from numo-narray or from numo-narray-alt. The gem depends on neither, since
  # the two exclude each other. There is every class of numbers from Numo::Int8 to Numo::DComplex.
  # Not Numo::Bit: its elements share bytes, so that processes would lose each other's writes. Not
  # Numo::RObject: its elements are of one process.
  #
  # @example A child writes, nothing is marshalled
  #   a = Numo::Shared.new(Numo::Int32, [2, 3])
  #   Process.wait(fork { a[1, true].fill(7) })
  #   a.to_a # => [[0, 0, 0], [7, 7, 7]]
  module Shared
    # @!method self.new(type, *shape, **options)
    #   Creates an array of zeros in shared memory.
    #   @param type [Class] one of Numo's classes of numbers
    #   @param shape [Integer, Array<Integer>] elements in each dimension: +2, 3+ as for Numo's own,
    #     or +[2, 3]+
    #   @option options [String, nil] :name (nil) so that others can {.attach} it without a handle
    #   @option options [Boolean] :persist (false) whether it stays when nobody holds it, until
    #     {.unlink}; needs a name
    #   @option options [:C, :F] :order (:C) the dimension whose elements lie side by side: the
    #     last, or the first (then it is a view)
    #   @option options [Integer] :mode (0o600) the permissions of its file
    #   @option options [Boolean] :uninitialized (false) whether the elements may have any value
    #   @return [Numo::NArray] of that class
    #   @raise [TypeError, ArgumentError] for a class, a shape or a name that cannot be
    #   @raise [Errno::EEXIST] when the name is taken
    #   @raise [Errno::ENOSPC] when shared memory is full
    #   @example
    #     a = Numo::Shared.new(Numo::Int32, [2, 3, 3])
    #     [a.class, a.shape] # => [Numo::Int32, [2, 3, 3]]

    # @!method self.share(array)
    #   A shared copy, in C order and in one pass; or the array itself if it is shared already.
    #
    #   Other Ruby threads run while a large one is copied. Meanwhile it cannot be freed or made
    #   anew.
    #   @param array [Numo::NArray]
    #   @return [Numo::NArray] of the same class
    #   @raise [TypeError] for Numo::Bit, Numo::RObject and what is no array
    #   @raise [ArgumentError] for an array that Numo has given no memory yet
    #   @raise [Errno::ENOSPC] when shared memory is full
    #   @example
    #     a = Numo::Shared.share(Numo::DFloat[1.5, 2.5])
    #     Numo::Shared.share(a).equal?(a) # => true

    # @!method self.shared?(array)
    #   Whether its elements are in shared memory, as those of every view are whose base's are.
    #   @param array [Object]
    #   @return [Boolean]
    #   @example
    #     a = Numo::Shared.new(Numo::UInt8, 3)
    #     [a, a[1..2], a.dup].map { |each| Numo::Shared.shared?(each) } # => [true, true, false]

    # @!method self.handle(array)
    #   The line of text that any process on the machine can {.attach} while somebody holds the
    #   array. It holds nothing itself.
    #   @param array [Numo::NArray] in shared memory; also a strided, reversed or transposed view
    #   @return [String]
    #   @raise [ArgumentError] for a private array, and for a view by an index array, which has no
    #     strides
    #   @example
    #     a = Numo::Shared.new(Numo::Int32, [2, 3]).seq
    #     Numo::Shared.attach(Numo::Shared.handle(a.transpose)).to_a # => [[0, 3], [1, 4], [2, 5]]

    # @!method self.handle_to_send(array)
    #   A handle that holds the array until it is attached for the first time, or given to
    #   {Shmarray.discard}; at most as long as a process lives of those that have one ancestor which
    #   used shared memory.
    #   @param array [Numo::NArray] in shared memory
    #   @return [String]
    #   @raise [ArgumentError] as {.handle}
    #   @example
    #     text = Numo::Shared.handle_to_send(Numo::Shared.share(Numo::Int8[1, 2]))
    #     GC.start
    #     Numo::Shared.attach(text).to_a # => [1, 2]

    # @!method self.attach(handle_or_name, readonly: false)
    #   The Numo array that a handle means, or that has this name. Nothing is copied.
    #   @param handle_or_name [String, Shmarray::Array]
    #   @param readonly [Boolean] whether it is frozen, and its memory protected against writes in
    #     this process
    #   @return [Numo::NArray] of the class of its dtype
    #   @raise [ArgumentError] for a text that is no handle, or one that does not fit its segment
    #   @raise [TypeError] for a dtype that Numo has no class for: bool, float16 and bytes
    #   @raise [Errno::ENOENT, Shmarray::StaleHandleError] when the array is gone
    #   @raise [Errno::EACCES] when this user may not
    #   @example
    #     a = Numo::Shared.new(Numo::SFloat, 2, name: "weights")
    #     fixed = Numo::Shared.attach("weights", readonly: true)
    #     a[0] = 0.5
    #     [fixed[0], fixed.frozen?] # => [0.5, true]

    # @!method self.unlink(name)
    #   As {Shmarray.unlink}.
    #   @return [nil]
    # @!method self.segments
    #   As {Shmarray.segments}.
    #   @return [Array<Hash{Symbol => Object}>]
    # @!method self.sweep
    #   As {Shmarray.sweep}.
    #   @return [Hash{Symbol => Integer}]

    # What the guards and Numo::Parallel use.
    private_class_method :copied?, :copy_to, :copy_if_room, :shareable?, :unfilled?
  end
end

Numo.autoload :Parallel, "numo/parallel"
