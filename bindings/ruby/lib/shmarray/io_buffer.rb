# frozen_string_literal: true

module Shmarray
  # An IO::Buffer of ours carries its array with it, so that this outlives it and its slices.
  module KeepsArray
    NAME = :@shmarray_array
    private_constant :NAME

    def self.give(buffer, array)
      IO::Buffer.prepend(self)
      buffer.instance_variable_set(NAME, array)
      buffer
    end

    # Whether a slice of what is read-only is: in Ruby 3.1 it is not, and a write would end the
    # process.
    def self.protects_slices?
      IO::Buffer.for("protected").slice(0, 1).readonly?
    end

    def transfer
      array = instance_variable_get(NAME)
      array ? KeepsArray.give(super, array) : super
    end
  end
  private_constant :KeepsArray

  class Array
    # The array's memory as an IO::Buffer, which IO#read, #write and a fiber scheduler take without
    # a copy. It keeps the memory, as its slices do, also when the array is closed.
    #
    # @return [IO::Buffer] read-only as the array is
    # @raise [ArgumentError] when the elements do not lie side by side in one order or the other
    # @raise [NotImplementedError] for a read-only array in Ruby 3.1, whose slices forget that they
    #   are
    # @example A frame from a file, straight into shared memory
    #   frame = Shmarray::Array.create(:uint8, [2, 4])
    #   IO.pipe do |reader, writer|
    #     writer.write("\1\2\3\4\5\6\7\10")
    #     frame.to_io_buffer.read(reader, 8)
    #   end
    #   frame.to_a # => [[1, 2, 3, 4], [5, 6, 7, 8]]
    def to_io_buffer
      if readonly? && !KeepsArray.protects_slices?
        raise NotImplementedError,
              "slices of a read-only IO::Buffer can be written to in Ruby #{RUBY_VERSION}"
      end

      KeepsArray.give(*io_buffer)
    end
  end
end
