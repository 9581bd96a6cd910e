# frozen_string_literal: true

require_relative "helper"

# The comments in lib/: everything public has one, and the examples run.
class DocumentationTest < SharedMemoryTest
  LIB = File.expand_path("../lib", __dir__)
  EXAMPLE = /^ *#( *)@example.*\n((?:^ *#(?:\1  .*)?\n)+)/

  # The examples by file and line, without the comment signs.
  EXAMPLES = Dir["#{LIB}/**/*.rb"].sort.flat_map do |file|
    text = File.read(file)
    text.to_enum(:scan, EXAMPLE).map do
      found = Regexp.last_match
      at = "#{file.delete_prefix("#{LIB}/")}:#{found.pre_match.count("\n") + 1}"
      [at, found[2].gsub(/^ *# */, "").gsub(/^\s*\n/, "")]
    end
  end.to_h

  # Examples that need a gem which may be missing, or read files of the reader's.
  SPARED = /decode\(file\)/

  def test_there_are_examples
    assert_operator EXAMPLES.size, :>, 25
  end

  EXAMPLES.each do |at, example|
    define_method("test_example_#{at}") do
      skip "no Numo gem is installed" if example.include?("Numo") && !NUMO
      return if example.match?(SPARED)

      expected = example.scan(/ # => (.*)$/).flatten
      refute_empty expected, example
      # A value is that of its line.
      script = example.gsub(/^(.*\S) # => .*$/) { "p((#{Regexp.last_match(1)}))" }
      output = ruby_says("require '#{NUMO ? "numo/shared" : "shmarray"}'\n#{script}")
      assert_equal expected, output.lines(chomp: true)
    end
  end

  def documented
    require "yard"
    YARD::Logger.instance.level = YARD::Logger::FATAL # what it thinks of others' modules
    YARD::Registry.clear
    YARD.parse("#{LIB}/**/*.rb")
    YARD::Registry
  rescue LoadError
    skip "the gem yard is not installed"
  end

  def test_every_public_method_is_documented
    registry = documented
    names = PUBLIC_MODULES.flat_map do |mod|
      mod.singleton_methods(false).map { |name| "#{mod}.#{name}" } +
        mod.public_instance_methods(false).map { |name| "#{mod}##{name}" }
    end
    without = names.reject { |name| described?(registry.at(name)) }
    assert_empty without
    assert_operator names.size, :>, 30
  end

  # A description, or a tag such as @return or @raise.
  def described?(method)
    method && (!method.docstring.empty? || method.tags.any?)
  end

  def test_every_module_and_constant_is_documented
    without = documented.all(:module, :class, :constant).reject do |one|
      !one.docstring.empty? || private?(one)
    end
    assert_empty without.map(&:path) - ["Numo"]
  end

  # A constant that cannot be named from outside, or is in one that cannot.
  def private?(one)
    Object.class_eval(one.path) && false
  rescue NameError
    true
  end
end
