# frozen_string_literal: true

module Numo
  module Parallel
    # An object as a message: Marshal's bytes, and the arrays that were in it.
    #
    # Marshal calls no method of ours for an array of Numo's, and must not: a dump means a private copy.
    # So what holds arrays is copied, Arrays, Hashes and Structs, with a {Place} where each was. What
    # other objects hold goes with them, as bytes.
    class Parcel
      # Where an array of the message stands. Loading one gives the array.
      class Place
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

      attr_reader :payload

      # The object of a message.
      def self.open(message, payload = message.payload)
        Thread.current[:numo_parallel_arrays] = ->(index) { array_of(message.array(index)) }
        Marshal.load(payload)
      ensure
        Thread.current[:numo_parallel_arrays] = nil
      end

      # Of Numo's class where it has one.
      def self.array_of(array)
        Shared.attach(array)
      rescue TypeError
        array
      end

      # Raises what Marshal raises for what cannot be dumped.
      def initialize(object)
        @found, @copies = {}.compare_by_identity, {}.compare_by_identity
        look_into(object)
        @payload = Marshal.dump(@found.empty? ? object : with_places(object))
      end

      # The arrays in shared memory, as they stand in the message: those that were private are copied there,
      # by +copier+ if it is given.
      def arrays(copier = nil)
        @found.keys.map { |array| private?(array) ? copied(array, copier) : array }
      end

      # What has to be copied.
      def private_arrays
        @found.keys.select { |array| private?(array) }
      end

      private

      def private?(array)
        array.is_a?(NArray) && !handle?(array)
      end

      def handle?(array)
        Shared.shared?(array) && Shared.handle(array) && true
      rescue ArgumentError # a view without strides
        false
      end

      def copied(array, copier)
        copier ? copier.copy(array) : Shared.share(array)
      end

      def look_into(object)
        waiting = [object]
        until waiting.empty?
          one = waiting.pop
          if array?(one)
            @found[one] ||= Place.new(@found.size)
          elsif (held = held_by(one)) && !@copies.key?(one)
            @copies[one] = nil
            waiting.concat(held.reverse)
          end
        end
      end

      def array?(object)
        object.is_a?(Shmarray::Array) || (object.is_a?(NArray) && Shared.send(:shareable?, object.class))
      end

      def held_by(object)
        case object
        when ::Array then object
        when ::Hash then object.to_a.flatten(1)
        when ::Struct then object.to_a
        when DATA then object.to_h.values
        end
      end

      # Ruby 3.2 has Data.
      DATA = defined?(::Data) && ::Data.respond_to?(:define) ? ::Data : Class.new

      def with_places(object)
        return @found[object] if @found.key?(object)
        return object unless @copies.key?(object)

        @copies[object] ||
          case object
          when ::Array then copy_of(object).map! { |item| with_places(item) }
          when ::Hash then copy_of_hash(object)
          when ::Struct then copy_of(object).tap { |copy| object.each_pair { |name, item| copy[name] = with_places(item) } }
          when DATA then object.with(**object.to_h.transform_values { |item| with_places(item) })
          end
      end

      # Known before what is in it, which may hold it, too.
      def copy_of(object)
        @copies[object] = object.dup
      end

      def copy_of_hash(object)
        copy = copy_of(object).clear
        object.each { |key, item| copy[with_places(key)] = with_places(item) }
        copy
      end
    end
    private_constant :Parcel
  end
end
