# frozen_string_literal: true

# The Numo on which the tests run, and the version of this library.
module Which
  begin
    require "numo/shared"
    GEM = Gem.loaded_specs.keys.grep(/\Anumo-narray/).first
    NUMO = "#{GEM} #{Gem.loaded_specs.fetch(GEM).version}".freeze
  rescue LoadError => error
    raise unless error.message.start_with?("numo/shared needs")

    require "shmarray"
    NUMO = nil
    REASON = error.message
  end

  def self.line
    numo = NUMO ? "with #{NUMO}" : "without Numo (#{REASON})"
    "numo-shared #{Shmarray::VERSION}, #{numo}, Ruby #{RUBY_VERSION}"
  end
end
