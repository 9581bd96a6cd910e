# frozen_string_literal: true

module Shmarray
  # Makes an IO::Buffer hold its array, so that the array outlives the buffer and its slices.
  module KeepsArray
    NAME = :@shmarray_array
    private_constant :NAME

    def self.give(buffer, array)
      IO::Buffer.prepend(self)
      buffer.instance_variable_set(NAME, array)
      buffer
    end

    # Returns whether a slice of a read-only buffer is read-only. In Ruby 3.1 it is not, and a write
    # to it would end the process. The buffer is freed here: at its exit Ruby 3.1 aborts if it frees
    # a string before the buffer of it.
    def self.protects_slices?
      buffer = IO::Buffer.for("protected")
      buffer.slice(0, 1).readonly?
    ensure
      buffer.free
    end

    def transfer
      array = instance_variable_get(NAME)
      array ? KeepsArray.give(super, array) : super
    end
  end
  private_constant :KeepsArray

  class Array
    # Returns the array's memory as an IO::Buffer, which IO#read, IO#write and a fiber scheduler
    # take without a copy. The buffer and its slices hold the memory, even if the array is closed.
    #
    # @return [IO::Buffer] read-only if the array is
    # @raise [ArgumentError] if the elements do not lie side by side in C or Fortran order
    # @raise [NotImplementedError] for a read-only array in Ruby 3.1, where slices of the buffer
    #   could be written to
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
