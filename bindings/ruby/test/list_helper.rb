# frozen_string_literal: true

# Lists of given bytes.
module ListHelper
  GOLDEN = File.expand_path("../../../ci/checks/golden/lists", __dir__)
  DTYPE = '{"descr":"list","itemsize":1}'

  # Names and items of the golden lists. Numbers and texts are as in JSON; for an array there are
  # its shape and its elements, for bytes their hexadecimal digits.
  INDEX = JSON.parse(File.read("#{GOLDEN}/index.json")).freeze

  def golden(name)
    File.binread("#{GOLDEN}/#{name}")
  end

  # The array of a list with these bytes.
  def array_of_bytes(bytes)
    Shmarray::Array.create(DTYPE, bytes.bytesize).tap { |array| array[nil] = bytes.b.chars }
  end
end
