# frozen_string_literal: true

module Shmarray
  # A frozen mapping in shared memory, used as a Hash that nobody changes. A key is found by a hash
  # table there, so attaching takes no longer for more entries, and a look-up makes one value alone.
  #
  # The keys are of one kind, and the values of one kind, as the items of a {List}:
  #
  # | keys | come out as |
  # |---|---|
  # | Strings in UTF-8 or US-ASCII, and Symbols | Strings in UTF-8 |
  # | binary Strings | binary Strings |
  # | Integers of 64 bits | Integers |
  #
  # A Symbol is its String, as in JSON: a key that was put in as either is found by both. Otherwise
  # a key finds what is +eql?+ to it, as in a Hash: 1.0 does not find 1. Everything that comes out
  # is frozen, and arrays are read-only.
  #
  # A dictionary is frozen: any Ractor may have it. Marshal carries it by its handle, as a {List}.
  #
  # @example
  #   sizes = Shmarray::Dict.new({ one: 3, fifteen: 7 })
  #   [sizes["one"], sizes[:fifteen], sizes["two"]] # => [3, 7, nil]
  #   Shmarray::Dict.attach(sizes.handle).to_h # => {"one"=>3, "fifteen"=>7}
  class Dict
    include Enumerable

    # The class of the keys and values.
    LIST = List
    NONE = Object.new.freeze
    private_constant :LIST, :NONE, :Builder
    private_class_method :open, :open_file

    class << self
      # Creates a dictionary of all entries, in one pass. A failure leaves nothing behind.
      # @param entries [Hash, #each_pair, #each] a Hash, or pairs
      # @param name [String, nil] a name by which others can {.attach} it
      # @param persist [Boolean] as for {List.new}
      # @param mode [Integer] as for {List.new}
      # @return [Dict]
      # @raise [TypeError] if a key or a value is of another kind than those before it, or can be
      #   none: the message names the key
      # @raise [ArgumentError] if a key is there twice, also as a Symbol and its String; if a String
      #   is no UTF-8, or the name is invalid
      # @raise [RangeError] if an Integer does not fit 64 bits
      # @raise [Errno::EEXIST, Errno::ENOSPC] as for {List.new}
      # @example
      #   Shmarray::Dict.new([["a", 1.5], ["b", nil]]).to_h # => {"a"=>1.5, "b"=>nil}
      #   Shmarray::Dict.new({ "a" => 1, 2 => 3 }) rescue $!.message
      #   # => "key 2: it is an Integer, not a String in UTF-8 as those before it"
      def new(entries, name: nil, persist: false, mode: 0o600)
        builder = Dict.const_get(:Builder).new({ name: name, persist: persist, mode: mode })
        if entries.respond_to?(:each_pair)
          entries.each_pair { |key, value| builder.push(key, value) }
        else
          entries.each { |pair| builder.push(*parts_of(pair)) }
        end
        builder.finish(self, *lists)
      end

      # Attaches the dictionary of a handle or of a name. Nothing is copied.
      # @param handle_or_name [String, Array] or the array of a message
      # @return [Dict]
      # @raise [TypeError] if it is no dictionary
      # @raise [ArgumentError, Error, SystemCallError] as for {List.attach}
      # @example
      #   dict = Shmarray::Dict.new({ 1 => "one" }, name: "numerals")
      #   Shmarray::Dict.attach("numerals")[1] # => "one"
      def attach(handle_or_name)
        open(handle_or_name, *lists)
      end

      # Loads a dictionary that was saved to a file, in any language, into shared memory. Its
      # checksum is compared.
      # @param path [String, Pathname, #to_path]
      # @param name [String, nil] as for {List.new}
      # @param persist [Boolean] as for {List.new}
      # @param mode [Integer] as for {List.new}
      # @return [Dict]
      # @raise [ArgumentError] if the file is not one of a dictionary, or is broken
      # @raise [SystemCallError] as for {List.load}
      # @example
      #   Shmarray::Dict.new({ "one" => 1 }).save("words.dict")
      #   Shmarray::Dict.load("words.dict")["one"] # => 1
      #   File.delete("words.dict") # => 1
      def load(path, name: nil, persist: false, mode: 0o600)
        open_file(File.path(path), { name: name, persist: persist, mode: mode }, *lists)
      end

      # Returns the dictionary that was dumped.
      # @param text [String] of {Dict#_dump}
      # @return [Dict]
      # @raise [Errno::ENOENT] if it is gone
      def _load(text)
        attach(text.dup.force_encoding(Encoding::UTF_8))
      end

      private

      def lists
        list = const_get(:LIST)
        [list, list.send(:of_numo)]
      end

      def parts_of(pair)
        parts = ::Array.try_convert(pair)
        return parts if parts && parts.size == 2

        raise TypeError, "#{pair.inspect} is no pair of a key and its value"
      end
    end

    # @!method [](key)
    #   Returns the value of a key.
    #   @param key [Object]
    #   @return [Object, nil] nil also if there is no such key: {#fetch} raises
    #   @raise [TypeError] for a pickle of Python, which only Python reads
    #   @raise [Error] if the dictionary's bytes are broken

    # @!method key?(key)
    #   Returns whether there is a key. {#include?}, {#member?} and {#has_key?} are the same.
    #   @param key [Object]
    #   @return [Boolean]

    # @!method size
    #   Returns how many entries there are. {#length} is the same.
    #   @return [Integer]

    # @!method keys
    #   Returns the keys, in the order in which they were put in: a list over the same memory.
    #   @return [List]
    #   @example
    #     Shmarray::Dict.new({ "b" => 1, "a" => 2 }).keys.to_a # => ["b", "a"]

    # @!method values
    #   Returns the values, in the order of the keys: a list over the same memory.
    #   @return [List]
    #   @example
    #     Shmarray::Dict.new({ "b" => 1, "a" => 2 }).values.sum # => 3

    # @!method nbytes
    #   @return [Integer] the bytes of shared memory that it takes

    # @!method handle
    #   Returns the line of text by which any process on the machine can {.attach} the dictionary
    #   while some process holds it. The handle itself holds nothing.
    #   @return [String]

    # @!method handle_to_send
    #   Returns a handle that holds the dictionary, as {Array#handle_to_send} does.
    #   @return [String]
    #   @raise [Errno::ENOSPC] if shared memory is full

    alias length size
    alias has_key? key?
    alias include? key?
    alias member? key?

    # @return [Boolean] whether there are no entries
    def empty?
      size.zero?
    end

    # Returns the value of a key, and does not return nil if there is none.
    # @param key [Object]
    # @param default [Object] what is returned if there is no such key
    # @yieldparam key [Object] the block returns that instead
    # @return [Object]
    # @raise [KeyError] if there is no such key, and neither a default nor a block
    # @example
    #   dict = Shmarray::Dict.new({ "a" => 5 })
    #   [dict.fetch("a"), dict.fetch("b", 0), dict.fetch("b") { |key| key * 2 }] # => [5, 0, "bb"]
    def fetch(key, default = NONE)
      index = index_of(key)
      return values[index] if index
      return yield(key) if block_given?
      return default unless default.equal?(NONE)

      raise KeyError.new("key not found: #{key.inspect}", receiver: self, key: key)
    end

    # Returns the value of a key, or what is inside of it.
    # @param key [Object]
    # @param inner [::Array<Object>] keys and indexes there
    # @return [Object, nil]
    # @example
    #   Shmarray::Dict.new({ "a" => { sizes: [1, 2] } }).dig("a", :sizes, 1) # => 2
    def dig(key, *inner)
      inner.empty? ? self[key] : [self[key]].dig(0, *inner)
    end

    # Returns the values of some keys.
    # @param keys [::Array<Object>]
    # @return [::Array<Object>] nil for a key that is not there
    def values_at(*keys)
      keys.map { |key| self[key] }
    end

    # Yields every key with its value, in the order in which they were put in. {#each_pair} is the
    # same.
    # @yieldparam entry [::Array(Object, Object)]
    # @return [self, Enumerator] an Enumerator without a block, which knows its size
    # @example
    #   dict = Shmarray::Dict.new({ "a" => 1, "b" => 2 })
    #   dict.map { |key, value| key * value } # => ["a", "bb"]
    #   dict.to_h { |key, value| [value, key] } # => {1=>"a", 2=>"b"}
    def each
      return to_enum(:each) { size } unless block_given?

      keys = self.keys
      values = self.values
      index = 0
      while index < size
        yield [keys[index], values[index]]
        index += 1
      end
      self
    end
    alias each_pair each

    # Saves the dictionary to a file, which appears under its path when it is complete. {.load}
    # loads it; Python, C and C++ open it in place.
    # @param path [String, Pathname, #to_path]
    # @return [nil]
    # @raise [SystemCallError] if the file cannot be written
    def save(path)
      save_to(File.path(path))
    end

    # Returns whether the other is a dictionary of the same keys with equal values, in any order.
    #
    # A Hash is never equal: compare {#to_h} with it.
    # @param other [Object]
    # @return [Boolean]
    # @example
    #   dict = Shmarray::Dict.new({ "a" => 1, "b" => 2 })
    #   [dict == Shmarray::Dict.new({ b: 2, a: 1 }), dict == dict.to_h] # => [true, false]
    def ==(other)
      return true if equal?(other)

      other.is_a?(Dict) && size == other.size &&
        all? { |key, value| other.key?(key) && value == other[key] }
    end

    # Returns the dictionary itself, which nothing can change.
    # @return [self]
    def dup
      self
    end

    # Returns the dictionary itself, which nothing can change.
    # @return [self]
    def clone(freeze: true)
      raise ArgumentError, "can't unfreeze #{self.class}" if freeze == false

      self
    end

    # Returns a handle that holds the dictionary until it is loaded.
    # @return [String]
    # @raise [Errno::ENOSPC] if shared memory is full
    def _dump(_level)
      handle_to_send
    end

    # @return [String] how many keys of which kind, and of which kind the values are
    # @example
    #   Shmarray::Dict.new({ "a" => 1 }).inspect # => "#<Shmarray::Dict 1 strings to numbers>"
    def inspect
      "#<#{self.class} #{size} #{keys.kind} to #{values.kind}>"
    end
    alias to_s inspect
  end
end
