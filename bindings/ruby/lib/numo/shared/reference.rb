# frozen_string_literal: true

module Numo
  module Shared
    # Carries an array through any Marshal: loading gives the array in shared memory, not a copy.
    #
    # The dump of an array itself keeps its meaning: its bytes, which load as a private array.
    #
    # @example The gem parallel, without a copy on the way
    #   frames = Parallel.map(files, in_processes: 4) do |file|
    #     Numo::Shared::Reference.new(decode(file))
    #   end
    #   frames.first # => Numo::UInt8, in shared memory
    #
    # @example A file, a socket, a database
    #   text = Marshal.dump(Numo::Shared::Reference.new(Numo::DFloat[1, 2]))
    #   Marshal.load(text).to_a # => [1.0, 2.0]
    #
    # A dump holds the array until it is loaded for the first time, or the last process of its
    # maker's family has ended: the first process that uses the library and all that are forked from
    # it afterwards (core's PROTOCOL.md, "a handle sent out of band").
    class Reference
      # @return [Numo::NArray] in shared memory
      attr_reader :array

      # @param array [Numo::NArray] copied to shared memory unless it is there already
      # @raise [TypeError] for Numo::Bit and Numo::RObject
      def initialize(array)
        @array = Shared.share(array)
      end

      # @return [String]
      # @raise [Errno::ENOSPC] if shared memory is full
      def _dump(_level)
        Shared.handle_to_send(@array)
      end

      # @return [Numo::NArray]
      # @raise [Errno::ENOENT] if the array is gone
      def self._load(text)
        Shared.attach(text.dup.force_encoding(Encoding::UTF_8))
      end
    end
  end
end
