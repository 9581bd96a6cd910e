# frozen_string_literal: true

# The third stage of the pipeline: counts how often each value occurs in each channel of a
# photograph.
#
#     reduce.rb          Reads two handles from each line, separated by a tab: a photograph, and an
#                        array for its counts. For each line it prints the nanoseconds that
#                        counting took, and at the end the bytes copied.
#     reduce.rb --bytes  Does the same without shared memory: reads "HEIGHT WIDTH" and a pickle of
#                        bytes, and writes the counts as bytes and the nanoseconds.
#
# It uses Numo if numo-narray or numo-narray-alt is installed. If not, or with --without-numo, it
# uses Shmarray::Array.

begin
  require "numo/shared" unless ARGV.include?("--without-numo")
rescue LoadError
  # Numo is not installed, so NUMO is nil.
end
require "fiddle"
require "shmarray"

NUMO = defined?(Numo::Shared)

def attach(handle, readonly:)
  (NUMO ? Numo::Shared : Shmarray::Array).attach(handle, readonly: readonly)
end

# Returns a photograph of private bytes. Without Numo it is copied to shared memory, because only
# arrays there have bincount.
def from_bytes(bytes, shape)
  return Numo::UInt8.from_binary(bytes, shape) if NUMO

  Shmarray::Array.wrap(Fiddle::Pointer[bytes]).view(shape, [shape[1] * 3, 3, 1])
end

# Returns the [3, 256] counts of a [HEIGHT, WIDTH, 3] photograph.
def counts_of(photo)
  return photo.bincount(axis: [0, 1], minlength: 256) unless NUMO

  count = ->(channel) { photo[true, true, channel].flatten.bincount(minlength: 256) }
  Numo::UInt64[*(0..2).map(&count)]
end

# Returns the block's value and the nanoseconds that it took.
def timed
  began = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
  [yield, Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond) - began]
end

def reduce_handles
  $stdin.each_line(chomp: true) do |line|
    photo, result = line.split("\t")
    photo, result = attach(photo, readonly: true), attach(result, readonly: false)
    puts timed { result[true, true] = counts_of(photo) }.last
  end
end

# Reads the output of pickle.dumps(bytes, protocol=5) for more than 64 KiB.
def read_pickle
  size = $stdin.read(7).unpack1("@3L<")
  bytes = $stdin.read(size)
  $stdin.read(2)
  bytes
end

def reduce_bytes
  while (line = $stdin.gets)
    height, width = line.split.map(&:to_i)
    photo = from_bytes(read_pickle, [height, width, 3])
    counts, nanoseconds = timed { counts_of(photo) }
    $stdout.write(NUMO ? counts.to_binary : counts.to_bytes)
    puts nanoseconds
  end
end

$stdout.sync = true
puts NUMO ? "Numo #{Numo::NArray::VERSION}" : "Shmarray::Array"
ARGV.include?("--bytes") ? reduce_bytes : reduce_handles
puts Shmarray.copied_bytes
