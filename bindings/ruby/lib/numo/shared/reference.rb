# frozen_string_literal: true

module Numo
  module Shared
    # Carries an array through any Marshal: what is loaded is the array in shared memory, not a
    # copy.
    #
    # The dump of an array itself keeps its meaning: its bytes, and a private array when it is
    # loaded.
    #
    # @example The gem parallel, without a copy on the way
    #   frames = Parallel.map(files, in_processes: 4) { |file|
    #   Numo::Shared::Reference.new(decode(file)) } frames.first # => Numo::UInt8, in shared memory
    #
    # @example A file, a socket, a database
    #   text = Marshal.dump(Numo::Shared::Reference.new(Numo::DFloat[1, 2]))
    #   Marshal.load(text).to_a # => [1.0, 2.0]
    #
    # What was dumped is held until it is loaded for the first time, at most as long as a process
    # lives of those that have one ancestor which used shared memory (core's FORMAT.md: a family).
    class Reference
      # @return [Numo::NArray] in shared memory
      attr_reader :array

      # @param array [Numo::NArray] shared already, or it is copied there
      # @raise [TypeError] for Numo::Bit and Numo::RObject
      def initialize(array)
        @array = Shared.share(array)
      end

      # @return [String]
      # @raise [Errno::ENOSPC] when shared memory is full
      def _dump(_level)
        Shared.handle_to_send(@array)
      end

      # @return [Numo::NArray]
      # @raise [Errno::ENOENT] when the array is gone
      def self._load(text)
        Shared.attach(text.dup.force_encoding(Encoding::UTF_8))
      end
    end
  end
end
