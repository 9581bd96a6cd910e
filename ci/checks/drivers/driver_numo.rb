# frozen_string_literal: true

# The driver of Numo arrays. README.md says how it must answer.
# If Numo has no class for a dtype, the driver attaches a Shmarray::Array and answers its bytes.

require "numo/shared"
require_relative "driver"

class NumoDriver < Driver
  CLASSES = {
    "|i1" => Numo::Int8, "<i2" => Numo::Int16, "<i4" => Numo::Int32, "<i8" => Numo::Int64,
    "|u1" => Numo::UInt8, "<u2" => Numo::UInt16, "<u4" => Numo::UInt32, "<u8" => Numo::UInt64,
    "<f4" => Numo::SFloat, "<f8" => Numo::DFloat, "<c8" => Numo::SComplex, "<c16" => Numo::DComplex
  }.freeze
  CHANNEL = Numo::Shared::Channel
  LIST = Numo::Shared::List
  DICT = Numo::Shared::Dict

  def do_hello
    "ok numo #{Numo::NArray::VERSION}"
  end

  def do_dtypes
    "ok #{CLASSES.keys.join(" ")}"
  end

  private

  def make_channel(name, dtype, shape)
    CHANNEL.create(name, CLASSES.fetch(dtype), shape)
  end

  def make(dtype, shape, **options)
    Numo::Shared.new(CLASSES.fetch(dtype), shape, **options)
  end

  def attached(text, readonly)
    Numo::Shared.attach(text, readonly: readonly)
  rescue TypeError, ArgumentError => error # no class for the dtype, or too many dimensions
    raise unless error.message.include?("Shmarray::Array.attach")

    Shmarray::Array.attach(text, readonly: readonly)
  end

  def share(count, value)
    Numo::Shared.share(Numo::Int64.new(2 * count).fill(value)[(0..-1) % 2])
  end

  def fill(array, value)
    return super unless numo?(array)

    array[1..-1] = value if array.size > 1
    array[0] = value
  end

  def facts(array)
    return super unless numo?(array)

    JSON.parse(handle_text(array)).values_at("dtype", "shape", "strides")
  end

  def get(array, index)
    return array[*index] if numo?(array) && index.any?

    numo?(array) ? array.extract : super
  end

  def set(array, index, value)
    return super if index.any? || !numo?(array)

    array.store(value)
  end

  def to_bytes(array)
    numo?(array) ? array.dup.to_binary : super
  end

  def handle_text(array)
    numo?(array) ? Numo::Shared.handle(array) : super
  end

  def ticket_text(array)
    numo?(array) ? Numo::Shared.handle_to_send(array) : super
  end

  def numo?(array)
    array.is_a?(Numo::NArray)
  end
end

serve(NumoDriver.new) if $PROGRAM_NAME == __FILE__
