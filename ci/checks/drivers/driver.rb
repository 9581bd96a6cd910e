# frozen_string_literal: true

# The conformance driver of Shmarray::Array. README.md says how it must answer.

require "shmarray"

# The commands of the line protocol; a subclass implements them for its arrays.
class Driver
  LAYOUTS = {
    "c" => ->(make) { make.([2, 3, 4]) },
    "f" => ->(make) { make.([2, 3, 4], order: :F) },
    "strided" => ->(make) { make.([4, 6, 4]).then { |a| a[(0..-1) % 2, (0..-1) % 2, true] } },
    "reversed" => ->(make) { make.([2, 3, 4]).then { |a| a[(-1..0) % -1, true, (-1..0) % -1] } },
    "transposed" => ->(make) { make.([4, 3, 2]).transpose },
    "scalar" => ->(make) { make.([]) },
    "empty" => ->(make) { make.([0, 3]) }
  }.freeze

  def answer(line)
    command, argument = line.split(" ", 2)
    raise ArgumentError, "no command #{command.inspect}" unless COMMANDS.include?(command)

    public_send(command, *argument)
  rescue Exception => error # whatever it is, the runner wants to know
    "error #{error.class} #{error.message.gsub(/\s*\n\s*/, " ")}"
  end

  COMMANDS = %w[hello dtypes create attach compare write written bytes handle publish receive
                close].freeze

  def hello
    "ok ruby #{RUBY_VERSION}"
  end

  def dtypes
    "ok #{Shmarray::DTYPES.join(" ")}"
  end

  def create(arguments)
    @dtype, layout = arguments.split
    @array = LAYOUTS.fetch(layout).call(->(shape, **options) { make(@dtype, shape, **options) })
    fill
    handle
  end

  def attach(arguments)
    access, text = arguments.split(" ", 2)
    @array = nil
    @array = attached(text, access == "ro")
    @dtype, shape, strides = facts
    "ok #{@dtype} #{list(shape)} #{list(strides)}"
  end

  def compare
    indices.each_with_index { |index, k| return bad(k, get(index)) if get(index) != pattern(k) }
    "ok #{indices.size}"
  end

  def write
    set(indices.last, pattern(100))
    "ok"
  rescue RuntimeError => error # FrozenError is one
    raise unless error.message.match?(/read-only|frozen/)

    "refused #{error.message}"
  end

  def written
    found = get(indices.last)
    found == pattern(100) ? "ok" : bad(indices.size - 1, found)
  end

  def bytes
    hex = to_bytes.unpack1("H*")
    "ok #{hex.empty? ? "-" : hex}"
  end

  def handle
    "ok #{handle_text}"
  end

  def publish(arguments)
    name, @dtype = arguments.split
    @channel = make_channel(name, @dtype, [2, 3, 4])
    @channel.loan(meta: @dtype) do |array|
      @array = array
      fill
    end
    @array = nil
    "ok #{@channel.handle}"
  end

  def receive(text)
    channel = self.class::CHANNEL.open(text)
    @dtype = channel.dtype
    compared = channel.receive do |array|
      @array = array
      compare
    end
    "#{compared} #{channel.last.meta}"
  ensure
    @array = nil
    channel&.close
  end

  def close
    @array = nil
    @channel&.close
    @channel = nil
    GC.start
    "ok"
  end

  CHANNEL = Shmarray::Channel

  private

  def make_channel(name, dtype, shape)
    CHANNEL.create(name, dtype, shape)
  end

  def fill
    indices.each_with_index { |index, k| set(index, pattern(k)) }
  end

  def make(dtype, shape, **options)
    Shmarray::Array.create(dtype, shape, **options)
  end

  def attached(text, readonly)
    Shmarray::Array.attach(text, readonly: readonly)
  end

  def facts
    [@array.dtype, @array.shape, @array.strides]
  end

  def get(index)
    @array[*index]
  end

  def set(index, value)
    @array[*index] = value
  end

  def to_bytes
    @array.to_bytes
  end

  def handle_text
    @array.handle
  end

  # Every index in C order.
  def indices
    first, *rest = @array.shape.map { |count| (0...count).to_a }
    first ? first.product(*rest) : [[]]
  end

  def pattern(number)
    kind, bits = @dtype[1], @dtype[2..].to_i * 8
    case kind
    when "b" then (number % 3).zero?
    when "i" then wrap(7 * number + 3 - 20 + 2**(bits - 1), bits) - 2**(bits - 1)
    when "u" then wrap(7 * number + 3, bits)
    when "f" then number / 2.0 - 3.25
    when "c" then Complex(number / 2.0 - 3.25, 2.5 - number)
    else raise TypeError, "no elements of dtype #{@dtype}"
    end
  end

  def wrap(number, bits)
    number % 2**bits
  end

  def bad(number, found)
    "bad #{number} #{found}"
  end

  def list(numbers)
    numbers.empty? ? "-" : numbers.join(",")
  end
end

# Answers line by line until the input ends.
def serve(driver)
  $stdout.sync = true
  $stdin.each_line(chomp: true) { |line| puts driver.answer(line) }
end

serve(Driver.new) if $PROGRAM_NAME == __FILE__
