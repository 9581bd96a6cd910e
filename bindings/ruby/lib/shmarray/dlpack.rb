# frozen_string_literal: true

module Shmarray
  class Array
    # @!method self.from_dlpack(pointer)
    #   Returns a shared copy of another framework's tensor on the CPU. The tensor stays the
    #   caller's, to give back by its deleter.
    #   @param pointer [Fiddle::Pointer, #to_i] the address of a DLManagedTensorVersioned of
    #     DLPack 1. It is not checked: a wrong address ends the process, or worse.
    #   @return [Array]
    #   @raise [ArgumentError] if the tensor is on another device, its elements are packed, or the
    #     pointer is null
    #   @raise [TypeError] if there is no such dtype
    #   @raise [Errno::ENOSPC] if shared memory is full

    # Returns a tensor of DLPack 1.1 that is the array, for frameworks that take a pointer to a
    # DLManagedTensorVersioned. It has the same memory, which stays until the tensor's deleter is
    # called.
    #
    # The pointer calls the deleter when it is collected. A framework that takes the tensor over
    # calls it itself: set +free+ to +nil+ then, or the tensor is given back twice.
    #
    # @return [Fiddle::Pointer] to a tensor that must not be written if the array is read-only or
    #   frozen
    # @raise [TypeError] if DLPack has no such type
    # @raise [ArgumentError] if a stride is no multiple of the item size
    # @example
    #   a = Shmarray::Array.create(:float32, [2, 3])
    #   a[nil] = 1.5
    #   tensor = a.to_dlpack
    #   Shmarray::Array.from_dlpack(tensor).to_a # => [[1.5, 1.5, 1.5], [1.5, 1.5, 1.5]]
    def to_dlpack
      require "fiddle"
      Fiddle::Pointer.new(*dlpack)
    end
  end
end
