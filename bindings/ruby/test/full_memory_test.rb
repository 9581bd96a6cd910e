# frozen_string_literal: true

require_relative "helper"

# Full shared memory that garbage takes: ci/checks/scenarios/test_full_memory.py has the rest.
class FullMemoryTest < SharedMemoryTest
  # Ruby itself collects when there are too many open files. Likewise unreferenced arrays are no
  # reason to fail.
  def test_unreferenced_arrays_make_room
    in_small_tmpfs("size=4m") do
      array = filled(1000, 7)
      100.times { |number| away { filled(1 << 20, number % 251) } }
      assert_equal 7.chr * 1000, array.to_bytes
    end
  end

  private

  def filled(size, value)
    Shmarray::Array.create(:uint8, size).tap { |array| array[nil] = value }
  end
end
