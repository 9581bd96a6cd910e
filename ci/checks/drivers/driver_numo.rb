# frozen_string_literal: true

# The conformance driver of Numo arrays. README.md says how it must answer.
# If Numo has no class for a dtype, the driver attaches a Shmarray::Array and answers its bytes.

require "json"
require "numo/shared"
require_relative "driver"

class NumoDriver < Driver
  CLASSES = {
    "|i1" => Numo::Int8, "<i2" => Numo::Int16, "<i4" => Numo::Int32, "<i8" => Numo::Int64,
    "|u1" => Numo::UInt8, "<u2" => Numo::UInt16, "<u4" => Numo::UInt32, "<u8" => Numo::UInt64,
    "<f4" => Numo::SFloat, "<f8" => Numo::DFloat, "<c8" => Numo::SComplex, "<c16" => Numo::DComplex
  }.freeze

  def hello
    "ok numo #{Numo::NArray::VERSION}"
  end

  def dtypes
    "ok #{CLASSES.keys.join(" ")}"
  end

  CHANNEL = Numo::Shared::Channel

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

  def facts
    return super unless numo?

    JSON.parse(handle_text).values_at("dtype", "shape", "strides")
  end

  def get(index)
    return @array[*index] if numo? && index.any?

    numo? ? @array.extract : super
  end

  def set(index, value)
    return super if index.any? || !numo?

    @array.store(value)
  end

  def to_bytes
    numo? ? @array.dup.to_binary : super
  end

  def handle_text
    numo? ? Numo::Shared.handle(@array) : super
  end

  def numo?
    @array.is_a?(Numo::NArray)
  end
end

serve(NumoDriver.new) if $PROGRAM_NAME == __FILE__
