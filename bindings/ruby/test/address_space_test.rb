# frozen_string_literal: true

require_relative "helper"

# Under ulimit -v: arrays of processes that have ended take none of it, nor do arrays that nothing
# refers to, and what is short is NoMemoryError.
class AddressSpaceTest < SharedMemoryTest
  MIB = 1 << 20

  def test_arrays_that_nothing_refers_to_make_room
    in_child do
      Shmarray::Array.create(:uint8, 9)
      limit_address_space(200 * MIB)
      12.times { |mark| Shmarray::Array.create(:uint8, 40 * MIB)[0] = mark }
      nil
    end
  end

  def test_an_array_beyond_the_limit_is_a_no_memory_error_that_names_it
    in_child do
      Shmarray::Array.create(:uint8, 9)
      limit_address_space(64 * MIB)
      error = assert_raises(NoMemoryError) { Shmarray::Array.create(:uint8, 200 * MIB) }
      assert_match(/ulimit -v/, error.message)
      assert_equal 0, Shmarray::Array.create(:uint8, MIB)[0]
      nil
    end
  end

  private

  def limit_address_space(more)
    pages = File.read("/proc/self/statm").split.first.to_i
    Process.setrlimit(:AS, pages * 4096 + more, Process::RLIM_INFINITY)
  end
end
