# frozen_string_literal: true

require "timeout"
require_relative "helper"

# Beyond ulimit -f: an error that does not blame the memory, and no death by SIGXFSZ.
class FileLimitTest < SharedMemoryTest
  LIMIT = 1 << 20

  def test_the_programs_own_handler_is_there_afterwards
    in_child do
      handled = 0
      trap(:XFSZ) { handled += 1 }
      limit_files
      refute_blames_memory { Shmarray::Array.create(:uint8, 4 * LIMIT) }
      before = handled
      Process.kill(:XFSZ, Process.pid)
      Timeout.timeout(120, nil, "the handler did not run") { Thread.pass until handled > before }
      assert_works_below
      nil
    end
  end

  private

  def limit_files
    Process.setrlimit(:FSIZE, LIMIT, Process::RLIM_INFINITY)
  end

  def refute_blames_memory(&make)
    error = assert_raises(StandardError, &make)
    refute_match(/memory is full/, error.message)
  end

  def assert_works_below
    array = Shmarray::Array.create(:uint8, LIMIT / 2)
    array[-1] = 7
    assert_equal 7, array[-1]
  end
end
