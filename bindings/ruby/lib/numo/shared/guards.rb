# frozen_string_literal: true

module Numo
  module Shared
    # Numo's methods that would replace the memory or the shape under a shared array.
    #
    # They stand in front of Numo::NArray's own, because a view of a shared array is an
    # ordinary one of Numo's. Arrays in private memory go straight on, unless another thread is
    # copying them to shared memory just now.
    module Guards
      # Ignored, as Numo ignores it for a view: the memory goes with the last view of it.
      def free
        return self if Shared.shared?(self)

        Guards.refuse_copied(self, __method__)
        super
      end

      # Numo would take the memory of a frozen string for its own, and copies into a view
      # as if it had no offset and no strides.
      def store_binary(string, offset = 0)
        unless Shared.shared?(self)
          Guards.refuse_copied(self, __method__)
          return super
        end
        # Numo 0.9 would crash
        raise TypeError, "#{string.class} is not a String" unless string.is_a?(String)

        bytes = string.byteslice(offset, byte_size)
        if bytes.nil? || bytes.bytesize < byte_size
          raise ArgumentError, "string is too short to store"
        end

        store(self.class.from_binary(+bytes, shape)) if size.positive?
        byte_size
      end

      # On a read-only array Numo would change the shape and then refuse the elements.
      def reshape!(*)
        raise FrozenError, "can't modify frozen #{self.class}" if frozen? && Shared.shared?(self)

        super
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

      def self.refuse(array, method)
        if Shared.shared?(array)
          raise TypeError, "#{method}: an array in shared memory is not made anew"
        end

        refuse_copied(array, method)
      end

      def self.refuse_copied(array, method)
        return unless Shared.send(:copied?, array)

        raise ThreadError, "#{method}: another thread is copying this array"
      end
    end

    NArray.__send__(:prepend, Guards) # so written, YARD does not look for what is not ours
    private_constant :Guards
  end
end
