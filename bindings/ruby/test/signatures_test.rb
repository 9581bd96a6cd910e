# frozen_string_literal: true

require_relative "helper"

# sig/: the RBS signatures match the methods and constants.
class SignaturesTest < SharedMemoryTest
  # Ruby's own methods, which are not declared.
  ASIDE = %i[allocate inspect to_s initialize new].freeze

  def setup
    require "rbs"
  rescue LoadError
    skip "the gem rbs is not installed"
  end

  def definitions
    loader = RBS::EnvironmentLoader.new
    loader.add(path: Pathname(File.expand_path("../sig", __dir__)))
    RBS::DefinitionBuilder.new(env: RBS::Environment.from_loader(loader).resolve_type_names)
  end

  def declared(definition, name)
    definition.methods.select { |_, method| method.defined_in == name && method.public? }.keys
  end

  def test_every_method_is_declared_and_every_declaration_is_there
    builder = definitions
    PUBLIC_MODULES.each do |mod|
      namespace = RBS::Namespace.parse("::#{mod.name}").parent
      name = RBS::TypeName.new(name: mod.name.split("::").last.to_sym, namespace:)
      assert_same_methods mod.singleton_methods(false),
                          declared(builder.build_singleton(name), name), "#{mod}."
      assert_same_methods mod.public_instance_methods(false),
                          declared(builder.build_instance(name), name), "#{mod}#"
    end
  end

  def test_every_constant_is_declared_and_every_declaration_is_there
    env = definitions.env
    declared = env.constant_decls.keys.map(&:to_s) + env.class_decls.keys.map(&:to_s)
    there = PUBLIC_MODULES.grep_v(Class).flat_map do |mod|
      mod.constants.map { |name| "::#{mod}::#{name}" }
    end
    ours = declared.grep(/\A::(Shmarray|Numo::(Shared|Parallel))::\w+\z/)
    assert_equal [[], []], [there - ours, (NUMO ? ours : ours.grep_v(/Numo/)) - there]
  end

  def assert_same_methods(there, declared, where)
    assert_equal [[], []], [there - declared - ASIDE, declared - there - ASIDE], where
  end
end
