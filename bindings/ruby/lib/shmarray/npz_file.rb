# frozen_string_literal: true

module Shmarray
  # The members of an NPZ file, by their names: arrays, and binary Strings for members that are no
  # NPY files. {Shmarray.load_npz} opens one.
  #
  # It is a collection as a Hash is. Each access loads the array once more; {#to_h} and {#slice}
  # load several arrays at once, in threads. Names are Strings, and may be given as Symbols.
  #
  # @example
  #   Shmarray.save_npz("members.npz", a: Shmarray::Array.create(:int8, 2), note: "as it is")
  #   Shmarray.load_npz("members.npz") do |npz|
  #     npz.files # => ["a", "note"]
  #     npz["a"].to_a # => [0, 0]
  #     npz[:note] # => "as it is"
  #   end
  #   File.delete("members.npz") # => 1
  class NpzFile
    include Enumerable

    SUFFIX = ".npy"
    private_constant :SUFFIX
    private_class_method :open

    # @!method close
    #   Closes the file. Arrays that were loaded stay.
    #   @return [nil]
    # @!method closed?
    #   @return [Boolean]

    # Returns the names of all members, in the file's order, without ".npy"; also those of arrays of
    # Python objects, which only Python can load. {#keys} is the same.
    # @return [::Array<String>]
    def files
      @names.keys
    end
    alias keys files

    # Returns how many members there are. {#length} is the same.
    # @return [Integer]
    def size
      @names.size
    end
    alias length size

    # @return [Boolean]
    def empty?
      @names.empty?
    end

    # Returns whether there is a member of this name, with or without ".npy". {#has_key?},
    # {#include?} and {#member?} are the same.
    # @param name [String, Symbol]
    # @return [Boolean]
    def key?(name)
      !position(name).nil?
    end
    alias has_key? key?
    alias include? key?
    alias member? key?

    # Loads a member.
    # @param name [String, Symbol] with or without ".npy"
    # @return [Array, Numo::NArray, String, nil] nil if there is no such member
    # @raise [ArgumentError] if the member is invalid, its CRC differs, or it has Python objects
    # @raise [TypeError] in Numo::Shared: for a dtype without a class in Numo
    # @raise [Errno::ENOSPC] if shared memory is full
    # @raise [IOError] if the file is closed
    def [](name)
      at = position(name)
      load_members([at], 1).first if at
    end

    # Loads a member as {#[]} does. If there is no such member, it returns the default, or the
    # block's result for the name, or else raises a KeyError.
    # @return [Array, Numo::NArray, String, Object]
    # @raise [KeyError]
    def fetch(name, *default)
      return self[name] if key?(name)
      return yield name if block_given?

      default.fetch(0) do
        raise KeyError.new("no member #{name.inspect}", receiver: self, key: name)
      end
    end

    # Loads each member in turn, and yields its name and the array. {#each_pair} is the same.
    # @yieldparam pair [(String, Array)]
    # @return [self, Enumerator]
    def each
      return to_enum(:each) { size } unless block_given?

      files.each { |name| yield [name, self[name]] }
      self
    end
    alias each_pair each

    # Loads all members, in several threads: those that {Shmarray.load_npz} was given as +threads:+.
    # A block converts each pair, as with Hash.
    # @return [Hash{String => Array, Numo::NArray, String}]
    # @raise as {#[]}, for the first member that cannot be loaded
    def to_h(&block)
      all = slice(*files)
      block ? all.to_h(&block) : all
    end

    # Loads some members, as {#to_h} loads all. Names without a member are left out, as with Hash.
    # @param names [::Array<String, Symbol>]
    # @return [Hash{String => Array, Numo::NArray, String}]
    # @example
    #   one = Shmarray::Array.create(:int8, 2)
    #   Shmarray.save_npz("some.npz", a: one, b: one, c: one)
    #   Shmarray.load_npz("some.npz") { |npz| npz.slice(:a, :c).keys } # => ["a", "c"]
    #   File.delete("some.npz") # => 1
    def slice(*names)
      there = names.uniq.filter_map { |name| (at = position(name)) && [name.to_s, at] }
      there.map(&:first).zip(load_members(there.map(&:last), @threads)).to_h
    end

    # @return [String]
    def inspect
      "#<#{self.class}#{" closed" if closed?} #{files.join(", ")}>"
    end

    private

    # Reads the names, once.
    def prepare(threads)
      @threads = threads
      @members = members.map(&:freeze).each_with_index.to_h
      @names = @members.to_h { |member, at| [key_of(member), at] }
      self
    end

    # A name is shortened unless another member has the short one.
    def key_of(member)
      short = member.delete_suffix(SUFFIX).freeze
      @members.key?(short) ? member : short
    end

    def position(name)
      unless name.is_a?(String) || name.is_a?(Symbol)
        raise TypeError, "#{name.inspect} is not a name: a String or a Symbol"
      end

      @members[name.to_s] || @members["#{name}#{SUFFIX}"]
    end
  end
end
