# frozen_string_literal: true

# Typed n-dimensional arrays in shared memory, without Numo.
#
#   require "shmarray"
#   a = Shmarray::Array.create(:int32, [2, 3])
#   a[1, 2] = 5
#   Shmarray::Array.attach(a.handle)[1, 2]  # => 5, in any process
module Shmarray
end

require "shmarray_ruby"

module Shmarray
  private_class_method :bind_numo

  # What is raised when the time given is over: IO::TimeoutError where the running Ruby has it.
  TimeoutError = defined?(IO::TimeoutError) ? IO::TimeoutError : Class.new(Error)

  # Raised in the place of a result whose process died with it.
  class WorkerLost < Error
  end

  class Array
    include Enumerable # over all elements in C order; to_a nests them by dimension

    # More elements than this are not printed by inspect.
    INSPECT_LIMIT = 100
    private_constant :INSPECT_LIMIT

    # The elements, nested by dimension.
    def to_s
      to_a.to_s
    end

    def inspect
      elements = size > INSPECT_LIMIT ? "…" : to_s
      "#<#{self.class} #{dtype} #{shape} #{elements}>"
    end
  end
end

require "shmarray/pipe" if defined?(Shmarray::Pipe)
