# frozen_string_literal: true

require_relative "helper"
require "pathname"
require "stringio"

# What the tests of NPY and NPZ files share. Their files lie where the test's segments do.
module NpyFiles
  PATTERN = (0...251).map { |at| at * 37 % 251 }.pack("C*").freeze
  HEADER = ->(dtype, shape) { "{'descr': #{dtype}, 'fortran_order': False, 'shape': #{shape}, }" }

  def path(name)
    File.join(ENV.fetch("SHMARRAY_DIR"), name)
  end

  # An array of this dtype whose elements differ.
  def array(dtype = "<i4", shape = [2, 3])
    a = Shmarray::Array.create(dtype, shape)
    pattern = dtype == "|b1" ? "\0\1".b : PATTERN
    bytes = a.to_bytes.bytesize
    a.send(:store_bytes, 0, (pattern * (bytes / pattern.bytesize + 1)).byteslice(0, bytes))
    a
  end

  # An NPY file with this header and these elements.
  def npy(dtype, shape, elements = "".b)
    text = HEADER.call(dtype, shape)
    text += "#{" " * (63 - (10 + text.size) % 64)}\n"
    ["\x93NUMPY\x01\x00".b, [text.size].pack("v"), text.b, elements].join
  end

  def objects
    npy("'|O'", "(2,)", "\x80\x04.".b)
  end

  def saved(array)
    StringIO.new("".b).tap { |io| Shmarray.save_npy(io, array) }.string
  end

  def zipped(*arrays, **options)
    StringIO.new("".b).tap { |io| Shmarray.save_npz(io, *arrays, **options) }.string
  end

  def facts(array)
    [array.dtype, array.shape, array.strides, array.to_bytes]
  end
end
