# frozen_string_literal: true

# The third stage: counts how often each value stands in each channel of a photograph.
#
#     reduce.rb          two handles a line, tab between: a photograph, and where its counts go
#     reduce.rb --bytes  the same work the old way: "HEIGHT WIDTH", a pickle of bytes; counts as bytes
#
# It uses Numo where numo-narray or numo-narray-alt is installed, and Shmarray::Array where not.

begin
  require "numo/shared"
rescue LoadError
  require "shmarray"
end

NUMO = defined?(Numo::Shared)

# [3, 256] counts of an [HEIGHT, WIDTH, 3] photograph.
def counts_by_numo(photo)
  Numo::UInt64[*(0..2).map { |channel| photo[true, true, channel].flatten.bincount(minlength: 256) }]
end

# The same without Numo: Ruby's own loop over the bytes.
def counts_by_bytes(bytes)
  counts = Array.new(3 * 256, 0)
  bytes.each_byte.with_index { |value, place| counts[(place % 3) * 256 + value] += 1 }
  counts
end

def reduce_handles
  $stdin.each_line(chomp: true) do |line|
    photo, result = line.split("\t")
    if NUMO
      Numo::Shared.attach(result).store(counts_by_numo(Numo::Shared.attach(photo, readonly: true)))
    else
      counts = counts_by_bytes(Shmarray::Array.attach(photo, readonly: true).to_bytes)
      into = Shmarray::Array.attach(result)
      counts.each_with_index { |count, place| into[place / 256, place % 256] = count }
    end
    puts "done"
  end
  puts Shmarray.copied_bytes
end

# What pickle.dumps(bytes, protocol=5) writes for more than 64 KiB.
def read_pickle
  size = $stdin.read(7).unpack1("@3L<")
  bytes = $stdin.read(size)
  $stdin.read(2)
  bytes
end

def reduce_bytes
  while (line = $stdin.gets)
    height, width = line.split.map(&:to_i)
    bytes = read_pickle
    counts = NUMO ? counts_by_numo(Numo::UInt8.from_binary(bytes, [height, width, 3])).to_binary : counts_by_bytes(bytes).pack("Q<*")
    $stdout.write(counts)
  end
end

$stdout.sync = true
$stdout.puts NUMO ? "Numo (#{Numo::NArray::VERSION})" : "Shmarray::Array (no Numo is installed)"
ARGV.first == "--bytes" ? reduce_bytes : reduce_handles
