# frozen_string_literal: true

module Shmarray
  # An immutable sequence in shared memory, of one kind of items: numbers, arrays of any shapes,
  # strings, bytes, records or lists. Any of them may be nil.
  #
  # The items lie in columns, laid out as Arrow's, and any process has them by the list's handle or
  # name. An array is a view of the list's memory; a number, a string or bytes are copied out of it
  # when they are read. Items are frozen, and arrays read-only.
  #
  # | items | are of |
  # |---|---|
  # | numbers | Integers (64 bits), Floats, Complex numbers, or true and false |
  # | arrays | arrays of this library or of Numo's: of one dtype and one number of dimensions |
  # | strings | Strings in UTF-8 |
  # | bytes | binary Strings |
  # | records | Hashes with the same fields, whose names come out as Symbols |
  # | lists | Arrays with items of one kind |
  #
  # A list is frozen: any Ractor may have it. Marshal carries it by its handle. A dump holds the
  # list until it is loaded for the first time, or the last process of its maker's family has
  # ended.
  #
  # @example
  #   words = Shmarray::List.new(["one", nil, "three"])
  #   words[2] # => "three"
  #   Shmarray::List.attach(words.handle).to_a # => ["one", nil, "three"]
  #
  # @example Records, and the column of a field
  #   list = Shmarray::List.new([{ word: "one", size: 3 }, { word: "fifteen", size: 7 }])
  #   list[1] # => {:word=>"fifteen", :size=>7}
  #   list.field(:size).values.sum # => 10
  class List
    include Enumerable

    # The most items that inspect prints.
    INSPECT_LIMIT = 10
    # Whether arrays are Numo's.
    OF_NUMO = false
    NONE = Object.new.freeze
    private_constant :INSPECT_LIMIT, :OF_NUMO, :NONE, :Builder
    private_class_method :open, :open_dumped, :open_file

    class << self
      # Creates a list of all items, in one pass.
      #
      # The first item that is not nil says of which kind all are. In records and lists this holds
      # for each field, and for all items of the lists together. A failure leaves nothing behind.
      # @param items [#each] any Enumerable, also a lazy one
      # @param name [String, nil] a name by which others can {.attach} it
      # @param persist [Boolean] whether it stays when no process holds it, until {Shmarray.unlink};
      #   needs a name
      # @param mode [Integer] the permissions of its file
      # @return [List]
      # @raise [TypeError] if an item is of another kind than those before it, or can be in no list:
      #   the message names both, and the item's index and field
      # @raise [ArgumentError] if the fields of two records differ, a String is no UTF-8, or the
      #   name is invalid
      # @raise [RangeError] if an Integer does not fit 64 bits
      # @raise [Errno::EEXIST] if the name is taken
      # @raise [Errno::ENOSPC] if shared memory is full
      # @example
      #   list = Shmarray::List.new((1..4).lazy.map { |i| i * i }, name: "squares")
      #   list.to_a # => [1, 4, 9, 16]
      #   Shmarray::List.new([1, "two"]) rescue $!.message
      #   # => "item 1: it is a String in UTF-8, not an Integer as those before it"
      def new(items, name: nil, persist: false, mode: 0o600)
        builder = List.const_get(:Builder).new({ name: name, persist: persist, mode: mode })
        if items.is_a?(Enumerable)
          items.each_entry { |item| builder.push(item) }
        else
          items.each { |item| builder.push(item) }
        end
        builder.finish(self, of_numo)
      end

      # Attaches the list of a handle or of a name. Nothing is copied.
      # @param handle_or_name [String, Array] or the array of a message
      # @return [List]
      # @raise [ArgumentError] if the handle is invalid, or does not fit its segment
      # @raise [TypeError] if it is an array that is no list
      # @raise [Error] if the bytes are not those of a list
      # @raise [Errno::ENOENT, StaleHandleError] if the list is gone
      # @raise [Errno::EACCES] if this user may not open the segment
      # @example
      #   list = Shmarray::List.new([1.5, nil], name: "halves")
      #   Shmarray::List.attach("halves").to_a # => [1.5, nil]
      def attach(handle_or_name)
        open(handle_or_name, of_numo)
      end

      # Loads a list that was saved to a file, in any language, into shared memory. Its checksum is
      # compared.
      # @param path [String, Pathname, #to_path]
      # @param name [String, nil] as for {.new}
      # @param persist [Boolean] as for {.new}
      # @param mode [Integer] as for {.new}
      # @return [List]
      # @raise [ArgumentError] if the file is not one of a list, or is broken
      # @raise [Errno::ENOENT] if there is no such file
      # @raise [Errno::EEXIST, Errno::ENOSPC] as for {.new}
      # @example
      #   Shmarray::List.new(["one", nil]).save("words.list")
      #   Shmarray::List.load("words.list", name: "words").to_a # => ["one", nil]
      #   File.delete("words.list") # => 1
      def load(path, name: nil, persist: false, mode: 0o600)
        open_file(File.path(path), { name: name, persist: persist, mode: mode }, of_numo)
      end

      # Returns the list that was dumped, or the field or part of one, or of a dictionary.
      # @param text [String] of {List#_dump}
      # @return [List]
      # @raise [Errno::ENOENT] if the list is gone
      def _load(text)
        *place, handle = text.dup.force_encoding(Encoding::UTF_8).split(" ", 5)
        open_dumped(handle, of_numo).send(:at_place, *place.map { |number| Integer(number) })
      end

      private

      def of_numo
        const_get(:OF_NUMO)
      end
    end

    # @!method [](index)
    #   Returns an item, or a part.
    #   @overload [](index)
    #     @param index [Integer] negative ones count from the end
    #     @return [Object, nil] nil also if there is no such item: {#fetch} raises
    #   @overload [](range)
    #     @param range [Range, Enumerator::ArithmeticSequence]
    #     @return [List, nil] a part, over the same memory; nil if it begins outside
    #   @overload [](start, length)
    #     @return [List, nil]
    #   @raise [TypeError] for a pickle of Python, which only Python reads
    #   @raise [Error] if the list's bytes are broken
    #   @example
    #     list = Shmarray::List.new(%w[a b c d])
    #     [list[0], list[-1], list[9]] # => ["a", "d", nil]
    #     [list[1..].to_a, list[0, 2].to_a] # => [["b", "c", "d"], ["a", "b"]]
    #     list[(0..) % 2].to_a # => ["a", "c"]

    # @!method size
    #   Returns how many items there are. {#length} is the same.
    #   @return [Integer]

    # @!method kind
    #   Returns what the items are: +:numbers+, +:arrays+, +:strings+, +:bytes+, +:records+,
    #   +:lists+, +:pickles+ (which only Python reads), or +:nothing+ if all are nil.
    #   @return [Symbol]

    # @!method dtype
    #   @return [String, nil] the type string of numbers and arrays

    # @!method values
    #   Returns the values of all items, one after another: an array of numbers, of the elements of
    #   all arrays, or of the bytes of all strings; of lists the list of all their items. In place
    #   of a number that is nil there is any number.
    #
    #   A part has all values, as its list does: {#offsets} says which are its own. Only of numbers
    #   it has its own alone.
    #   @return [Array, Numo::NArray, List] read-only
    #   @raise [ArgumentError] for records, and if every item is nil
    #   @example
    #     list = Shmarray::List.new([[1, 2], [], [3]])
    #     list.values.to_a # => [1, 2, 3]
    #     list.offsets.to_a # => [0, 2, 2, 3]
    #     list[1..].offsets.to_a # => [2, 2, 3]

    # @!method offsets
    #   Returns where each item begins in the {#values}, and last where they end: one number more
    #   than items. They count elements, bytes, or items.
    #   @return [Array, Numo::NArray] of Integers of 64 bits, read-only
    #   @raise [ArgumentError] for numbers and records, and for a part with steps

    # @!method fields
    #   @return [::Array<Symbol>] the names of the fields of records
    #   @example
    #     Shmarray::List.new([{ "x" => 1, "y" => 2 }]).fields # => [:x, :y]

    # @!method nbytes
    #   @return [Integer] the bytes of the list; of a field or a part, those of its list

    # @!method handle
    #   Returns the line of text by which any process on the machine can {.attach} the list while
    #   some process holds it. The handle itself holds nothing.
    #   @return [String]
    #   @raise [ArgumentError] for a field or a part, also of a dictionary: attach the whole, and
    #     take it there

    # @!method handle_to_send
    #   Returns a handle that holds the list, as {Array#handle_to_send} does.
    #   @return [String] of the whole list
    #   @raise [Errno::ENOSPC] if shared memory is full

    alias length size

    # @return [Boolean] whether there are no items
    def empty?
      size.zero?
    end

    # Yields every item.
    # @yieldparam item [Object]
    # @return [self, Enumerator] an Enumerator without a block, which knows its size
    # @example
    #   Shmarray::List.new([5, 6]).each.with_index.to_a # => [[5, 0], [6, 1]]
    def each
      return to_enum(:each) { size } unless block_given?

      index = 0
      while index < size
        yield self[index]
        index += 1
      end
      self
    end

    # Returns an item, and does not return nil if there is none.
    # @param index [Integer]
    # @param default [Object] what is returned if there is no such item
    # @yieldparam index [Integer] the block returns that instead
    # @return [Object]
    # @raise [IndexError] if there is no such item, and neither a default nor a block
    # @example
    #   list = Shmarray::List.new([5])
    #   [list.fetch(-1), list.fetch(1, 0), list.fetch(1) { |i| -i }] # => [5, 0, -1]
    def fetch(index, default = NONE)
      raise TypeError, "#{index.inspect} is not an Integer" unless index.is_a?(Integer)
      return self[index] if index.between?(-size, size - 1)
      return yield(index) if block_given?
      return default unless default.equal?(NONE)

      raise IndexError, "index #{index} outside of list bounds: #{-size}...#{size}"
    end

    # Returns the last item, or a part with the last +count+.
    # @param count [Integer, nil]
    # @return [Object, List] nil if there are no items
    # @raise [ArgumentError] if the count is negative
    def last(count = nil)
      return self[-1] unless count
      raise ArgumentError, "negative count: #{count}" if count.negative?

      kept = [count, size].min
      self[-kept, kept]
    end

    # Returns the items of a field, as a list over the same memory.
    # @param name [Symbol, String]
    # @return [List]
    # @raise [KeyError] if there is no such field
    def field(name)
      unless name.is_a?(String) || name.is_a?(Symbol)
        raise TypeError, "#{name.inspect} is not a name: a String or a Symbol"
      end

      field_of(name.to_s) or
        raise KeyError.new("no field #{name.inspect} in #{inspect}", receiver: self, key: name)
    end

    # Saves the list to a file, which appears under its path when it is complete. {.load} loads it;
    # Python, C and C++ open it in place.
    # @param path [String, Pathname, #to_path]
    # @return [nil]
    # @raise [ArgumentError] for a field or a part
    # @raise [SystemCallError] if the file cannot be written
    def save(path)
      save_to(File.path(path))
    end

    # Returns whether the other is a list of equal items. Arrays are compared by value, as the
    # arrays themselves are.
    #
    # A Ruby Array is never equal: compare {#to_a} with it.
    # @param other [Object]
    # @return [Boolean]
    # @example
    #   list = Shmarray::List.new([1, 2, 3])
    #   [list == list[0..], list == list[1..], list == [1, 2, 3]] # => [true, false, false]
    def ==(other)
      return true if equal?(other)

      other.is_a?(List) && size == other.size && each.with_index.all? { |item, i| item == other[i] }
    end

    # Returns the list itself, which nothing can change.
    # @return [self]
    def dup
      self
    end

    # Returns the list itself, which nothing can change.
    # @return [self]
    def clone(freeze: true)
      raise ArgumentError, "can't unfreeze #{self.class}" if freeze == false

      self
    end

    # Returns the place of these items, and a handle that holds the list until it is loaded.
    # @return [String]
    # @raise [Errno::ENOSPC] if shared memory is full
    def _dump(_level)
      [*place, handle_to_send].join(" ")
    end

    # @return [String] how many items of which kind; fields, or numbers and strings if they are few
    # @example
    #   Shmarray::List.new(%w[a b]).inspect # => "#<Shmarray::List 2 strings [\"a\", \"b\"]>"
    def inspect
      facts = [size, kind, dtype].compact.join(" ")
      facts << " #{fields.join(", ")}" if kind == :records
      facts << " #{size > INSPECT_LIMIT ? "…" : to_a}" if %i[numbers strings].include?(kind)
      "#<#{self.class} #{facts}>"
    end
    alias to_s inspect
  end
end
