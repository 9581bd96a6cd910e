# frozen_string_literal: true

require "shmarray_ruby"

# Typed n-dimensional arrays in shared memory, without Numo.
#
# A process makes one and hands over its {Array#handle handle}, a line of text; any other process on
# the machine then has the same memory. It is given back when nobody holds it any more, however the
# holders end.
#
# @example
#   a = Shmarray::Array.create(:int32, [2, 3])
#   a[1, 2] = 5
#   Shmarray::Array.attach(a.handle)[1, 2] # => 5
#
# Core's errors that Ruby has a class for are raised as that ({ERROR_CLASSES}), all others as
# {Error}.
module Shmarray
  # @!method self.segments
  #   All of shared memory that this library has and this process may look at, one Hash for each
  #   part.
  #
  #   Its +:kind+ is +:array+ (which a process or a message holds, or that persists), +:pool+
  #   (memory that processes keep for their next arrays) or +:remains+ (what dead processes left:
  #   the next use of the library gives it back). The other keys are +:segment+ and +:name+
  #   (Strings, the name may be nil), +:bytes+ (of shared memory), +:dtype+, +:shape+, +:holders+
  #   (pids of the living), +:tickets+ (messages that hold it and can still be received),
  #   +:persists+, +:creator_pid+ and +:created_at+ (a Time).
  #   @return [::Array<Hash{Symbol => Object}>]
  #   @raise [SystemCallError] when the directory cannot be read
  #   @example
  #     a = Shmarray::Array.create(:uint8, [480, 640], name: "camera")
  #     found = Shmarray.segments.find { |facts| facts[:name] == "camera" }
  #     found.values_at(:kind, :dtype, :shape, :persists) # => [:array, "|u1", [480, 640], false]
  #     found[:holders] == [Process.pid] # => true

  # @!method self.sweep
  #   Gives back what dead processes held, and what this one keeps for its next arrays.
  #
  #   Nobody need call it: creating and receiving arrays gives back what the dead held, and what is
  #   kept goes when shared memory is full.
  #   @return [Hash{Symbol => Integer}] +:segments+ and +:bytes+ that were given back
  #   @raise [SystemCallError] when the directory cannot be read
  #   @example
  #     pid = fork do
  #       Shmarray::Array.create(:uint8, 1000)
  #       Process.kill(:KILL, Process.pid)
  #     end
  #     Process.wait(pid)
  #     Shmarray.sweep[:segments] # => 1

  # @!method self.unlink(name)
  #   Takes a name away. Who holds the array goes on; who attaches it by its name does not find it
  #   any more.
  #   @param name [String]
  #   @return [nil]
  #   @raise [Errno::ENOENT] when there is no such name
  #   @example
  #     Shmarray::Array.create(:int8, 3, name: "settings", persist: true)
  #     Shmarray.unlink("settings") # => nil

  # @!method self.discard(handle)
  #   Gives back what an unwanted handle holds.
  #   @param handle [String] from {Array#handle_to_send}; what an ordinary one means is left alone
  #   @return [nil]
  #   @example
  #     text = Shmarray::Array.create(:int8, 3).handle_to_send
  #     Shmarray.discard(text) # => nil

  # @!method self.copied_bytes
  #   Bytes of array data that this process has copied so far. Attaching copies none.
  #   @return [Integer]
  #   @example
  #     a = Shmarray::Array.create(:float64, 1000)
  #     before = Shmarray.copied_bytes
  #     b = Shmarray::Array.attach(a.handle)
  #     Shmarray.copied_bytes - before # => 0
  #     b.to_bytes.bytesize # => 8000
  #     Shmarray.copied_bytes - before # => 8000

  # What is raised when the time given is over: IO::TimeoutError where the running Ruby has it
  # (3.2).
  TimeoutError = defined?(IO::TimeoutError) ? IO::TimeoutError : Class.new(Error)

  # Raised in the place of a result whose process died with it.
  class WorkerLost < Error
  end

  @others = nil

  class << self
    private

    # Has other processes give back what nobody refers to; whether there were any. Those of
    # Numo::Parallel have.
    def others_make_room
      @others ? @others.call : false
    end

    attr_writer :others
  end

  private_class_method :bind_numo, :sweep_dead, :make_room, :room?, :arrays_in?, :extended?
  if defined?(JobCounter)
    private_class_method :job_counter, :process_fd, :write_some
    private_constant :JobCounter
  end

  # @!parse
  #   # The version of the gem and of core.
  #   VERSION = "…"
  #
  #   # The type strings of all dtypes with a meaning, such as "<i4".
  #   DTYPES = []
  #
  #   # Names of core's kinds of errors, and the class that each is raised as.
  #   ERROR_CLASSES = {}
  #
  #   # What went wrong in shared memory and no class of Ruby's says.
  #   class Error < StandardError
  #   end
  #
  #   # The handle is of an earlier life of its segment: the array that it meant is gone.
  #   class StaleHandleError < Error
  #   end
end

require "shmarray/array"
require "shmarray/array_like"
require "shmarray/reductions"
require "shmarray/io_buffer"
require "shmarray/pipe" if defined?(Shmarray::Pipe)
