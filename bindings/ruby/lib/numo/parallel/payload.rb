# frozen_string_literal: true

module Numo
  module Parallel
    # An object as Marshal's bytes, and the arrays in it that go by handle.
    #
    # Marshal calls no method of this library for a Numo array, and must not: a dump means a private
    # copy. So containers of arrays (Arrays, Hashes and Structs) are copied, with a {Placeholder} in
    # place of each array. Arrays that other objects contain go with them, as bytes.
    class Payload
      # Takes the place of an array. Loading it gives the array.
      class Placeholder
        def initialize(index)
          @index = index
        end

        def _dump(_level)
          [@index].pack("L")
        end

        def self._load(text)
          Thread.current[:numo_parallel_arrays].call(text.unpack1("L"))
        end
      end

      # Returns the object of these bytes, with the arrays of a message.
      def self.load(bytes, message = nil)
        return Marshal.load(bytes) unless message

        shared = message.payload.unpack1("@9L")
        begin
          Thread.current[:numo_parallel_arrays] =
            ->(index) { array_of(message, index, index >= shared) }
          Marshal.load(bytes)
        ensure
          Thread.current[:numo_parallel_arrays] = nil
        end
      end

      # Returns a Numo array if Numo has a class for the dtype. What was copied to be sent is this
      # process's own.
      def self.array_of(message, index, was_copied)
        return Shared.attach(message.array(index)) unless was_copied

        own = Internals.own_array(message, index)
        own ? Shared.attach(own) : Shared.attach(message.array(index)).dup
      rescue TypeError
        message.array(index)
      end

      def initialize(object)
        @object = object
        return unless Internals.arrays_in?(object)

        @arrays = {}.compare_by_identity
        @copies = {}.compare_by_identity
        find_arrays(object)
      end

      # Returns whether everything goes in band, even if there is room in shared memory.
      def in_band?
        @arrays.nil? || (shared_arrays.empty? && large_arrays.empty?)
      end

      # Sends the arrays that go by handle; those for which there is no room stay in band. Returns
      # the bytes of the rest, and the flag of their frame.
      def send_arrays(pipe, copier)
        return [dump, 0] if in_band?

        refuse_unfilled
        copies, in_buffer, needed = copier.copies(large_arrays)
        apart = shared_arrays + (copies ? large_arrays : [])
        return [dump, 0] if apart.empty?

        bytes = dump_without(apart)
        head = [in_buffer ? 1 : 0, needed, shared_arrays.size].pack("CQL")
        pipe.send_arrays(head, shared_arrays + (copies || []))
        [bytes, Stream::ARRAYS]
      ensure
        copies&.each(&:close) # the message holds them
      end

      private

      # Returns the arrays that are in shared memory already, which only a handle can carry, and the
      # others.
      def shared_and_private
        @shared_and_private ||= @arrays.keys.partition { |array| !private?(array) }
      end

      def shared_arrays
        shared_and_private[0]
      end

      # Returns the private arrays that go by handle if there is room.
      def large_arrays
        @large_arrays ||= begin
          least = Thresholds::ARRAY_BYTES
          large = shared_and_private[1].select { |array| array.byte_size >= least }
          large.sum(&:byte_size) < Thresholds::ARRAYS_BYTES ? [] : large
        end
      end

      # Returns Marshal's bytes of the whole object.
      # @raise any exception of Marshal for an object that cannot be dumped
      def dump
        refuse_unfilled if @arrays
        Marshal.dump(@object)
      end

      # Returns Marshal's bytes with a {Placeholder} for each of these arrays, in their order.
      def dump_without(arrays)
        @placeholders = {}.compare_by_identity
        arrays.each { |array| @placeholders[array] = Placeholder.new(@placeholders.size) }
        Marshal.dump(with_placeholders(@object))
      end

      # Refuses an array that Numo has given no memory yet.
      def refuse_unfilled
        one = shared_and_private[1].find { |array| Internals.unfilled?(array) } or return
        raise ArgumentError,
              "the block's result has a #{one.class} of shape #{one.shape} that was never filled"
      end

      def private?(array)
        array.is_a?(NArray) && !handle?(array)
      end

      def handle?(array)
        Shared.shared?(array) && Shared.handle(array) && true
      rescue ArgumentError # a view without strides
        false
      end

      def find_arrays(object)
        waiting = [object]
        until waiting.empty?
          one = waiting.pop
          if array?(one)
            @arrays[one] = true
          elsif !@copies.key?(one) && (contents = contents_of(one)) && Internals.arrays_in?(one)
            @copies[one] = nil
            waiting.concat(contents.reverse)
          end
        end
      end

      def array?(object)
        return true if object.is_a?(Shmarray::Array)

        object.is_a?(NArray) && Internals.shareable?(object.class)
      end

      # Returns what a container contains. A container that overrides a method of {OWN} is left to
      # Marshal, with all its contents.
      def contents_of(object)
        return if Internals.extended?(object)

        case object
        when ::Array then object if plain?(object.class, ::Array)
        when ::Hash then object.to_a.flatten(1) if plain?(object.class, ::Hash)
        when ::Struct then object.to_a if plain?(object.class, ::Struct)
        when DATA then object.to_h.values if plain?(object.class, DATA)
        end
      end

      # Returns whether the class overrides no method of {OWN} that it inherits from Ruby's class.
      def plain?(type, from)
        return true if type.equal?(from)

        @plain ||= {}.compare_by_identity
        @plain.fetch(type) { @plain[type] = OWN.none? { |name| has_own?(type, from, name) } }
      end

      # Methods that are called to copy a container, here or by Marshal.
      OWN = %i[
        _dump marshal_dump dup initialize_copy initialize_dup to_a to_h map! each each_pair clear
        []= with
      ].freeze

      def has_own?(type, from, name)
        owner_in(type, name) != owner_in(from, name)
      end

      def owner_in(type, name)
        return unless type.method_defined?(name) || type.private_method_defined?(name)

        type.instance_method(name).owner
      end

      # Data, which Ruby has since 3.2.
      DATA = defined?(::Data) && ::Data.respond_to?(:define) ? ::Data : Class.new

      def with_placeholders(object)
        return @placeholders[object] if @placeholders.key?(object)
        return object unless @copies.key?(object)

        @copies[object] ||
          case object
          when ::Array then copy_of(object).map! { |item| with_placeholders(item) }
          when ::Hash then copy_of_hash(object)
          when ::Struct then copy_of_struct(object)
          when DATA
            object.with(**object.to_h.transform_values { |item| with_placeholders(item) })
          end
      end

      # Registers the copy before its contents are copied, which may contain the object itself.
      def copy_of(object)
        @copies[object] = object.dup
      end

      def copy_of_struct(object)
        copy = copy_of(object)
        object.each_pair { |name, item| copy[name] = with_placeholders(item) }
        copy
      end

      def copy_of_hash(object)
        copy = copy_of(object).clear
        object.each { |key, item| copy[with_placeholders(key)] = with_placeholders(item) }
        copy
      end
    end
    private_constant :Payload
  end
end
