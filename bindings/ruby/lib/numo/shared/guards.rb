# frozen_string_literal: true

module Numo
  module Shared
    # Guards for Numo's methods that would replace the memory or the shape under an array over this
    # library's memory: a shared one, or one that a process has received alone.
    #
    # They precede Numo::NArray's own methods, because a view of such an array is an ordinary Numo
    # view. Any other array goes on to Numo's method, unless another thread is copying it to shared
    # memory.
    module Guards
      # Numo's own method.
      MARSHAL_DUMP = NArray.instance_method(:marshal_dump)

      # Does nothing, as Numo does nothing for a view: the memory is freed with its last view.
      def free
        return self if Guards.ours?(self)

        Guards.refuse_copied(self, __method__)
        super
      end

      # Does nothing, as Numo does nothing for an array that has its memory. One whose slot of a
      # channel was given back has none, and Numo would give it some.
      def allocate
        Guards.ours?(self) ? self : super
      end

      # Stores by a copy. Numo would take the memory of a frozen string for its own, and would copy
      # into a view as if it had no offset and no strides.
      def store_binary(string, offset = 0)
        unless Guards.ours?(self)
          Guards.refuse_copied(self, __method__)
          return super
        end
        # Numo 0.9 would crash.
        raise TypeError, "#{string.class} is not a String" unless string.is_a?(String)

        bytes = string.byteslice(offset, byte_size)
        if bytes.nil? || bytes.bytesize < byte_size
          raise ArgumentError, "string is too short to store"
        end

        store(self.class.from_binary(+bytes, shape)) if size.positive?
        byte_size
      end

      # Refuses to reshape a read-only array: Numo would change the shape and then refuse the
      # elements.
      def reshape!(*)
        raise FrozenError, "can't modify frozen #{self.class}" if frozen? && Guards.ours?(self)

        super
      end

      # Dumps a copy of bits and of objects: of a view that does not begin where its memory does
      # Numo dumps other bits, and crashes for objects.
      def marshal_dump
        return super unless is_a?(Bit) || is_a?(RObject)

        MARSHAL_DUMP.bind_call(dup)
      end

      def marshal_load(*)
        Guards.refuse(self, __method__)
        super
      end

      def initialize(*)
        Guards.refuse(self, __method__)
        super
      end

      def initialize_copy(*)
        Guards.refuse(self, __method__)
        super
      end

      # Returns whether its memory is this library's.
      def self.ours?(array)
        Shared.send(:guarded?, array)
      end

      def self.refuse(array, method)
        if ours?(array)
          raise TypeError, "#{method}: an array in shared memory cannot be initialized again"
        end

        refuse_copied(array, method)
      end

      def self.refuse_copied(array, method)
        return unless Shared.send(:copied?, array)

        raise ThreadError, "#{method}: another thread is copying this array"
      end
    end

    NArray.__send__(:prepend, Guards) # written so, YARD does not document methods of Numo
    private_constant :Guards
  end
end
