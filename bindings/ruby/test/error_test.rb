# frozen_string_literal: true

require_relative "helper"

class ErrorTest < SharedMemoryTest
  EXPECTED = {
    "NotFound" => Errno::ENOENT, "Exists" => Errno::EEXIST,
    "StaleHandle" => Shmarray::StaleHandleError,
    "InvalidHandle" => ArgumentError, "InvalidSegment" => Shmarray::Error,
    "InvalidFile" => ArgumentError, "InvalidArgument" => ArgumentError,
    "InvalidDType" => TypeError, "DTypeMismatch" => TypeError, "OutOfBounds" => ArgumentError,
    "ReadOnly" => FrozenError, "NoSpace" => Errno::ENOSPC, "NoMemory" => NoMemoryError,
    "PermissionDenied" => Errno::EACCES, "Unsupported" => Shmarray::Error,
    "Os" => SystemCallError
  }.freeze

  def test_every_kind_of_error_in_core_has_a_class
    without = Shmarray::ERROR_CLASSES.select { |_, type| type.nil? }.keys
    assert_empty without, "a kind without a row in error.rs"
    assert_equal EXPECTED, Shmarray::ERROR_CLASSES
  end

  def test_our_errors_are_standard_errors
    assert_operator Shmarray::StaleHandleError, :<, Shmarray::Error
    assert_equal StandardError, Shmarray::Error.superclass
  end

  def test_a_failed_system_call_keeps_its_errno_and_its_text
    ENV["SHMARRAY_DIR"] = "/dev/null/nowhere"
    error = assert_raises(Errno::ENOTDIR) { Shmarray::Array.create(:int8, 1) }
    assert_match %r{failed on /dev/null/nowhere}, error.message
  end

  def test_somebody_elses_segment_is_permission_denied
    skip "only root can give a file away" unless Process.uid.zero?
    a = Shmarray::Array.create(:int8, 1)
    file = File.join(ENV.fetch("SHMARRAY_DIR"), segments_in.first)
    File.chown(12_345, 12_345, file)
    in_child do
      error = assert_raises(Errno::EACCES) { ruby_attach(a.handle) }
      assert_match(/belongs to user 12345/, error.message)
      nil # what assert_match gives cannot be dumped
    end
  end

  # Attaches in a fresh process, because this one has the segment mapped.
  def ruby_attach(handle)
    output, = ruby(<<~RUBY, handle)
      require "shmarray"
      begin
        Shmarray::Array.attach(ARGV[0])
      rescue => error
        print error.class, "|", error.message
      end
    RUBY
    type, message = output.split("|", 2)
    raise Object.const_get(type), message
  end
end
