# frozen_string_literal: true

require_relative "../helper"

# Numo::Parallel uses of the gem what is public, and the private methods that Internals lists.
class NumoParallelInternalsTest < NumoTest
  LIB = File.expand_path("../../lib/numo", __dir__)
  LIST = "#{LIB}/parallel/internals.rb"
  SOURCES = (["#{LIB}/parallel.rb"] + Dir["#{LIB}/parallel/*.rb"] - [LIST]).to_h do |file|
    [file, File.readlines(file).grep_v(/^ *#/).join]
  end

  def test_every_private_method_that_is_listed_is_used
    listed = Numo::Parallel.const_get(:Internals)::METHODS
    used = SOURCES.values.flat_map { |text| text.scan(/\bInternals\.(\w+\??)( =)?/) }
    names = used.map { |name, assigns| :"#{name}#{"=" if assigns}" }
    assert_equal listed.values.flatten.sort, names.uniq.sort
    public_ones = listed.flat_map do |owner, methods|
      methods.select { |name| owner.respond_to?(name) }
    end
    assert_empty public_ones
  end

  def test_other_methods_and_constants_of_the_gem_are_public
    names = SOURCES.values.flat_map { |text| text.scan(/\b(?:Shmarray|Shared)\b[.:\w?!]*/) }.uniq
    assert_includes names, "Shmarray::Pipe.pair"
    names.each do |name|
      path, method = name.split(".")
      owner = path.split("::").inject(Numo) { |from, one| from.const_get(one) }
      assert_same owner, Numo.class_eval(path), name # raises for a private constant
      assert_respond_to owner, method, name if method
    end
  end

  def test_no_method_is_called_by_a_way_that_reaches_private_ones
    ways = /\.(?:send|__send__|const_get|instance_(?:eval|exec|variable_get))\b/
    SOURCES.each { |file, text| refute_match(ways, text, file) }
  end
end
