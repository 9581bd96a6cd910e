# frozen_string_literal: true

require "shmarray/files"

# NPY and NPZ files, as numpy.save and numpy.savez write them, straight into shared memory.
#
# A file is given as a path (a String, a Pathname), as an IO (any object with +read+ or +write+), or
# as its bytes, by the keyword +bytes:+ (a String, or a {Array} of bytes). A String alone is always
# a path. Other Ruby threads run while a file is read, written, inflated or deflated.
module Shmarray
  # Loads the array of an NPY file. It has the dtype, the shape and the order of the file.
  #
  # A file at a path is read straight into the array, without a buffer between; bytes are copied
  # once. An IO is left behind the array, so several arrays can follow each other.
  # @param source [String, Pathname, IO, #read, nil] a path, or an IO
  # @param bytes [String, Array] the bytes of a file instead
  # @return [Array] in shared memory
  # @raise [ArgumentError] if the file is invalid: it says which file, and what is wrong; also for
  #   an array of Python objects
  # @raise [Errno::ENOENT] if there is no such file
  # @raise [Errno::ENOSPC] if shared memory is full
  # @example
  #   a = Shmarray::Array.create(:float32, [2, 3])
  #   a[0, 1] = 0.5
  #   Shmarray.save_npy("weights.npy", a)
  #   Shmarray.load_npy("weights.npy").to_a # => [[0.0, 0.5, 0.0], [0.0, 0.0, 0.0]]
  #   text = File.binread("weights.npy")
  #   Shmarray.load_npy(bytes: text).shape # => [2, 3]
  #   File.delete("weights.npy") # => 1
  def self.load_npy(source = nil, bytes: nil)
    Files.load_npy(source, bytes, false)
  end

  # Loads NPY files of one shape and dtype into one array, whose first dimension counts the files.
  # Several threads read them; each file is open only while it is read.
  # @param sources [::Array<String, Pathname>, #to_a, nil] paths
  # @param bytes [::Array<String, Array>] the bytes of the files instead
  # @param threads [Integer, nil] nil for one for each core
  # @yieldparam done [Integer] how many files are read; the block is called now and then, and at the
  #   end. An exception ends the work.
  # @yieldparam total [Integer] how many there are
  # @return [Array] in shared memory, in C order
  # @raise [ArgumentError] if there are no files, or one is invalid, or differs from the first
  # @raise [Errno::ENOENT, Errno::ENOSPC] as {.load_npy}
  # @example
  #   paths = [1, 2].map do |value|
  #     "frame-#{value}.npy".tap do |path|
  #       Shmarray.save_npy(path, Shmarray::Array.create(:uint8, [2]).fill(value))
  #     end
  #   end
  #   Shmarray.load_batch(paths).to_a # => [[1, 1], [2, 2]]
  #   File.delete(*paths) # => 2
  def self.load_batch(sources = nil, bytes: nil, threads: nil, &block)
    Files.load_batch(sources, bytes, threads, false, &block)
  end

  # Opens an NPZ file, whose arrays are loaded when they are asked for. With a block it returns the
  # block's result, and closes the file at the block's end.
  #
  # An IO is read to its end first, since an NPZ file has its directory there.
  # @param source as in {.load_npy}
  # @param bytes as in {.load_npy}
  # @param options see below
  # @option options [Boolean] :verify (false) whether all members are compared with their CRCs
  #   now. Each is in any case when it is loaded.
  # @option options [Integer, nil] :threads (nil) how many threads load several members; nil for one
  #   for each core
  # @option options [Integer, nil] :max_bytes (nil) the limit on what compressed members may
  #   become in one call, against ZIP bombs; nil for the memory that is free, and at least 1 GiB and
  #   100 times the size of the file
  # @yieldparam npz [NpzFile]
  # @return [NpzFile, Object]
  # @raise [ArgumentError] if the file is invalid
  # @raise [Errno::ENOENT] if there is no such file
  # @example
  #   left = Shmarray::Array.create(:int32, 3).fill(7)
  #   Shmarray.save_npz("pair.npz", left: left, right: left)
  #   Shmarray.load_npz("pair.npz") { |npz| npz["left"].to_a } # => [7, 7, 7]
  #   Shmarray.load_npz("pair.npz", &:to_h).keys # => ["left", "right"]
  #   File.delete("pair.npz") # => 1
  def self.load_npz(source = nil, bytes: nil, **options, &block)
    Files.load_npz(source, bytes, NpzFile, false, **options, &block)
  end

  # Saves an array to an NPY file, with the bytes that numpy.save writes.
  #
  # The file appears under its path when it is complete. An older one is replaced and keeps its
  # owner, mode and attributes, or is written in place, as the gem's README says. A pipe, such as
  # "/dev/stdout" may be, is written as it is. The path is taken as it is: unlike NumPy, it adds no
  # ".npy".
  # @param target [String, Pathname, IO, #write] a path, or an IO that is open in binary mode
  # @param array [Array, Numo::NArray] with any strides; one in Fortran order is saved in that order
  # @return [nil]
  # @raise [TypeError] for any other object, for Numo::Bit and for Numo::RObject
  # @raise [SystemCallError] if it cannot be written
  # @example
  #   require "stringio"
  #   io = StringIO.new("".b)
  #   Shmarray.save_npy(io, Shmarray::Array.create(:int8, 3).fill(5))
  #   Shmarray.load_npy(io.tap(&:rewind)).to_a # => [5, 5, 5]
  def self.save_npy(target, array)
    Files.save_npy(target, array)
  end

  # Saves arrays to an NPZ file: named ones, then those without a name as "arr_0", "arr_1" … Stored,
  # it has the bytes that numpy.savez writes. The file appears as in {.save_npy}.
  #
  # A String is saved as it is, as a member that is no NPY file. So what {NpzFile#to_h} returns can
  # be saved again.
  # @param target as in {.save_npy}
  # @param arrays [::Array<Array, Numo::NArray, String, Hash>] a Hash has names that cannot be
  #   keywords
  # @param compressed [Boolean] whether members are deflated
  # @param threads [Integer, nil] how many threads deflate; nil for one for each core
  # @param align [Integer] the alignment of the members in bytes, a power of two up to 4096, such as
  #   64: stored arrays that are mapped are aligned then. 0 adds nothing to what numpy.savez writes
  # @param named [Hash{Symbol => Array, Numo::NArray, String}]
  # @return [nil]
  # @raise [ArgumentError] if two members have one name
  # @raise [TypeError, SystemCallError] as {.save_npy}
  # @example
  #   a = Shmarray::Array.create(:int8, 2)
  #   Shmarray.save_npz("all.npz", a, { "layer 1" => a }, bias: a, compressed: true)
  #   Shmarray.load_npz("all.npz", &:files) # => ["bias", "layer 1", "arr_0"]
  #   File.delete("all.npz") # => 1
  def self.save_npz(target, *arrays, compressed: false, threads: nil, align: 0, **named)
    Files.save_npz(target, arrays, named, compressed, threads, align)
  end
end
