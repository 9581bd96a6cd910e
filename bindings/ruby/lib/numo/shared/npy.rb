# frozen_string_literal: true

module Numo
  # NPY and NPZ files, straight into Numo arrays in shared memory. Files are given as for
  # {Shmarray.load_npy}.
  module Shared
    # The members of an NPZ file, as Numo arrays; otherwise as its parent. {Shared.load_npz} opens
    # one.
    class NpzFile < Shmarray::NpzFile
    end

    FILES = Shmarray.const_get(:Files)
    private_constant :FILES

    # Loads the array of an NPY file, as {Shmarray.load_npy} does. One in Fortran order becomes a
    # view.
    # @param source [String, Pathname, IO, #read, nil] a path, or an IO
    # @param bytes [String, Shmarray::Array] the bytes of a file instead
    # @return [Numo::NArray] in shared memory, of the class of its dtype
    # @raise [TypeError] for a dtype without a class in Numo, such as bool, float16 and big-endian
    #   ones: {Shmarray.load_npy} loads them
    # @raise [ArgumentError, Errno::ENOENT, Errno::ENOSPC] as {Shmarray.load_npy}
    # @example
    #   Numo::Shared.save_npy("image.npy", Numo::UInt8[[1, 2], [3, 4]])
    #   a = Numo::Shared.load_npy("image.npy")
    #   [a.class, a.to_a] # => [Numo::UInt8, [[1, 2], [3, 4]]]
    #   Numo::Shared.shared?(a) # => true
    #   File.delete("image.npy") # => 1
    def self.load_npy(source = nil, bytes: nil)
      FILES.load_npy(source, bytes, true)
    end

    # Loads NPY files of one shape and dtype into one array, as {Shmarray.load_batch} does.
    # @return [Numo::NArray] in shared memory
    # @raise [TypeError] as {.load_npy}
    # @example
    #   files = [1, 2].map { |value| "part-#{value}.npy" }
    #   files.each { |file| Numo::Shared.save_npy(file, Numo::Int16[1, 2]) }
    #   Numo::Shared.load_batch(files).to_a # => [[1, 2], [1, 2]]
    #   File.delete(*files) # => 2
    def self.load_batch(sources = nil, bytes: nil, threads: nil, &block)
      FILES.load_batch(sources, bytes, threads, true, &block)
    end

    # Opens an NPZ file, as {Shmarray.load_npz} does and with the same options.
    # @yieldparam npz [NpzFile]
    # @return [NpzFile, Object]
    # @raise [ArgumentError, Errno::ENOENT] as {Shmarray.load_npz}
    # @example
    #   Numo::Shared.save_npz("sample.npz", image: Numo::UInt8[1, 2], label: Numo::Int64[3])
    #   Numo::Shared.load_npz("sample.npz") do |npz|
    #     npz.files # => ["image", "label"]
    #     npz["image"].to_a # => [1, 2]
    #     npz.to_h { |name, array| [name, array.class] }["label"] # => Numo::Int64
    #   end
    #   File.delete("sample.npz") # => 1
    def self.load_npz(source = nil, bytes: nil, **options, &block)
      FILES.load_npz(source, bytes, NpzFile, true, **options, &block)
    end

    # Does the same as {Shmarray.save_npy}.
    # @return [nil]
    # @example
    #   Numo::Shared.save_npy("line.npy", Numo::DFloat[1, 2].reverse) # => nil
    #   Numo::Shared.load_npy("line.npy").to_a # => [2.0, 1.0]
    #   File.delete("line.npy") # => 1
    def self.save_npy(target, array)
      FILES.save_npy(target, array)
    end

    # Does the same as {Shmarray.save_npz}.
    # @return [nil]
    # @example
    #   Numo::Shared.save_npz("two.npz", Numo::Int8[1], Numo::Int8[2], compressed: true) # => nil
    #   Numo::Shared.load_npz("two.npz", &:files) # => ["arr_0", "arr_1"]
    #   File.delete("two.npz") # => 1
    def self.save_npz(target, *arrays, compressed: false, threads: nil, align: 0, **named)
      FILES.save_npz(target, arrays, named, compressed, threads, align)
    end
  end
end
