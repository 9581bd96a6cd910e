# frozen_string_literal: true

require_relative "helper"

# The README's examples run, and print the given output.
class ReadmeTest < SharedMemoryTest
  README = File.read(File.expand_path("../README.md", __dir__))
  EXAMPLES = README.scan(/^```ruby\n(.*?)^```$/m).flatten

  def test_there_are_examples
    assert_operator EXAMPLES.size, :>=, 2
  end

  EXAMPLES.each_with_index do |example, at|
    define_method("test_example_#{at}_prints_what_it_says") do
      skip "no Numo gem is installed" if example.include?("numo/shared") && !NUMO
      expected = example.scan(/^\s*(?:p|puts) .*# => (.*)$/).flatten
      refute_empty expected
      assert_equal expected, ruby_says(example).lines(chomp: true)
    end
  end
end
