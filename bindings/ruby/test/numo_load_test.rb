# frozen_string_literal: true

require_relative "helper"

# The messages on loading if Numo is missing, or of an unknown kind.
class NumoLoadTest < SharedMemoryTest
  def without_gems(script)
    ours = $LOADED_FEATURES.grep(%r{/(shmarray\.rb|shmarray_ruby\.so)\z})
    paths = ours.map { |file| File.dirname(file) }.uniq.flat_map { |path| ["-I", path] }
    Open3.capture2e(RbConfig.ruby, "--disable-gems", *paths, "-e", script)
  end

  def test_without_numo_the_error_names_both_gems
    output, = without_gems(<<~RUBY)
      begin
        require "numo/shared"
      rescue LoadError => error
        print error.message
      end
    RUBY
    assert_match(/numo-narray or the gem numo-narray-alt/, output)
  end

  def test_without_numo_arrays_work
    output, = without_gems("require 'shmarray'; print Shmarray::Array.create(:int8, 2).to_a")
    assert_equal "[0, 0]", output
  end

  # Objects with other structs in place of Numo's classes.
  def test_an_unknown_numo_is_refused
    { "Object.new" => /no typed data/, "Thread::Mutex.new" => /type info/,
      "Random.new" => /element size|type info/ }.each do |object, words|
      output, status = without_gems(<<~RUBY)
        class Object; def []=(*); end; end
        module Numo
          %w[
            Int8 Int16 Int32 Int64 UInt8 UInt16 UInt32 UInt64 SFloat DFloat SComplex DComplex
          ].each do |name|
            const_set(name, Class.new { def self.zeros(*) = #{object} })
          end
        end
        require "shmarray"
        begin
          Shmarray.send(:bind_numo)
        rescue LoadError => error
          print error.message
        end
      RUBY
      assert status.success?, output
      assert_match(/of a kind that shmarray .* does not know: Numo::Int8: /, output)
      assert_match words, output
    end
  end
end
