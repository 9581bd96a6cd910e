# frozen_string_literal: true

begin
  require "shmarray_ruby"
rescue LoadError => error
  raise unless error.path == "shmarray_ruby"

  raise LoadError,
        "the extension of numo-shared is not built, as Bundler builds none for a gem with path: " \
        "run rake -f #{File.expand_path("../Rakefile", __dir__)} compile"
end

# Typed n-dimensional arrays in shared memory, without Numo.
#
# A process creates an array and passes on its {Array#handle handle}, a line of text; any other
# process on the machine then has the same memory. The memory is freed when no process holds it any
# more, however the holders end.
#
# @example
#   a = Shmarray::Array.create(:int32, [2, 3])
#   a[1, 2] = 5
#   Shmarray::Array.attach(a.handle)[1, 2] # => 5
#
# An error of core is raised as the class that Ruby has for it ({ERROR_CLASSES}), and otherwise as
# {Error}.
module Shmarray
  # @!method self.segments
  #   Lists all shared memory of this library that this process may read: one Hash for each array,
  #   and one for the rest of each slab.
  #
  #   The keys are +:segment+ and +:name+ (Strings; the name may be nil), +:kind+, +:persists+,
  #   +:segment_bytes+ (of shared memory), +:dtype+, +:shape+, +:holders+ (pids of live processes),
  #   +:tickets+ (messages that hold it and can still be received), +:creator_pid+ and
  #   +:created_ns+ (nanoseconds since 1970: <tt>Time.at(0, ns, :nsec)</tt>). The +:kind+ is
  #   +:array+ (a process or a message holds it, or it persists), +:channel+ (a process has it open,
  #   or it persists), +:pool+ (pooled memory for a process's next arrays) or +:remains+ (dead
  #   processes left it, and the next use of the library frees it).
  #   @return [::Array<Hash{Symbol => Object}>]
  #   @raise [SystemCallError] if the directory cannot be read
  #   @example
  #     a = Shmarray::Array.create(:uint8, [480, 640], name: "camera")
  #     found = Shmarray.segments.find { |facts| facts[:name] == "camera" }
  #     found.values_at(:kind, :dtype, :shape, :persists) # => [:array, "|u1", [480, 640], false]
  #     found[:holders] == [Process.pid] # => true

  # @!method self.sweep
  #   Gives back what dead processes held, and the unused memory in the pools of all this user's
  #   processes.
  #
  #   A program need not call it: creating and receiving arrays gives back what dead processes held,
  #   and the pool is emptied when shared memory is full.
  #   @return [Hash{Symbol => Integer}] +:segments+ and +:bytes+ that were given back
  #   @raise [SystemCallError] if the directory cannot be read
  #   @example
  #     pid = fork do
  #       Shmarray::Array.create(:uint8, 1000)
  #       Process.kill(:KILL, Process.pid)
  #     end
  #     Process.wait(pid)
  #     Shmarray.sweep[:segments] # => 1

  # @!method self.unlink(name)
  #   Removes a name. Processes that hold the array keep it; attaching by the name fails from now
  #   on.
  #   @param name [String]
  #   @return [nil]
  #   @raise [Errno::ENOENT] if the name does not exist
  #   @example
  #     Shmarray::Array.create(:int8, 3, name: "settings", persist: true)
  #     Shmarray.unlink("settings") # => nil

  # @!method self.discard(handle)
  #   Gives back what an unwanted handle holds.
  #   @param handle [String] from {Array#handle_to_send}; an ordinary handle holds nothing, and its
  #     array is left alone
  #   @return [nil]
  #   @example
  #     text = Shmarray::Array.create(:int8, 3).handle_to_send
  #     Shmarray.discard(text) # => nil

  # @!method self.copied_bytes
  #   Returns the bytes of array data that this process has copied so far. Attaching copies none.
  #   @return [Integer]
  #   @example
  #     a = Shmarray::Array.create(:float64, 1000)
  #     before = Shmarray.copied_bytes
  #     b = Shmarray::Array.attach(a.handle)
  #     Shmarray.copied_bytes - before # => 0
  #     b.to_bytes.bytesize # => 8000
  #     Shmarray.copied_bytes - before # => 8000

  # Raised when a timeout expires: IO::TimeoutError if the running Ruby has it (3.2).
  TimeoutError = defined?(IO::TimeoutError) ? IO::TimeoutError : Class.new(Error)

  # Raised instead of a result if the worker died before it had sent it.
  class WorkerLost < Error
  end

  @others = nil

  class << self
    private

    # Asks other processes to free unreferenced arrays. Returns whether there were any to ask, which
    # only the workers of Numo::Parallel have.
    def others_make_room
      @others ? @others.call : false
    end

    attr_writer :others
  end

  private_class_method :bind_numo, :sweep_dead, :make_room, :reuse_dead, :room?, :arrays_in?,
                       :extended?, :job_counter
  private_class_method :process_fd, :write_some if respond_to?(:process_fd)
  private_class_method :own_array, :begin_family if respond_to?(:own_array)
  private_constant :JobCounter

  # @!parse
  #   # The version of the gem and of core.
  #   VERSION = "…"
  #
  #   # The type strings of the dtypes in core's table, such as "<i4", and the names of those that
  #   # have none, such as "bfloat16".
  #   DTYPES = []
  #
  #   # Core's kinds of errors by name, and the class that each is raised as.
  #   ERROR_CLASSES = {}
  #
  #   # Raised for an error in shared memory for which Ruby has no class.
  #   class Error < StandardError
  #   end
  #
  #   # Raised for a handle of an earlier generation of its segment: the array is gone.
  #   class StaleHandleError < Error
  #   end
end

require "shmarray/array"
require "shmarray/array_like"
require "shmarray/reductions"
require "shmarray/io_buffer"
require "shmarray/dlpack"
require "shmarray/npy"
require "shmarray/list"
require "shmarray/dict"
require "shmarray/pipe" if defined?(Shmarray::Pipe)
require "shmarray/channel" if defined?(Shmarray::Channel)
