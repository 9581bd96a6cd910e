# frozen_string_literal: true

require_relative "helper"

# On a machine without Numo the tests that need it are skipped, and the others run.
class WithoutNumoTest < SharedMemoryTest
  # A numo/narray that fails as `require` does where no such gem is installed.
  HIDES_NUMO = <<~RUBY
    error = LoadError.new("cannot load such file -- numo/narray")
    def error.path = "numo/narray"
    raise error
  RUBY

  def test_every_file_of_tests_loads_and_what_needs_numo_is_skipped
    Dir.mktmpdir do |directory|
      FileUtils.mkdir(File.join(directory, "numo"))
      File.write(File.join(directory, "numo/narray.rb"), HIDES_NUMO)
      all = File.join(__dir__, "all.rb")
      output, status = Open3.capture2e(RbConfig.ruby, "-I", directory, all, "-n", "/^Numo/")
      assert_predicate status, :success?, output
      assert_operator output[/(\d+) skips/, 1].to_i, :>, 100, output
    end
  end
end
