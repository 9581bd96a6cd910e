# frozen_string_literal: true

require_relative "helper"
require "rubygems/package"

# The contents of the gem that `stage` and `gem build` make. Nothing is compiled: ci/shell/setup.sh
# does that.
class GemTest < SharedMemoryTest
  BINDING = File.expand_path("..", __dir__)
  REPOSITORY = File.expand_path("../..", BINDING)
  UTF8 = { encoding: "UTF-8" }.freeze # wherever the tests run
  WORKSPACE = File.read(File.join(REPOSITORY, "Cargo.toml"), **UTF8)
  NEEDED = WORKSPACE[/^rust-version = "(.+)"/, 1]
  # Parts of paths that must not occur.
  FOR_TESTS = %w[
    tests test benches bench examples example fuzz loom_tests tests.rs loom_tests.rs
  ].freeze

  HAS_CARGO = ENV["PATH"].split(":").any? { |dir| File.executable?(File.join(dir, "cargo")) }

  # What each test looks at is made once, in the process from which all of them are forked.
  def run
    self.class.made if HAS_CARGO
    super
  end

  # As Bundler's `path:` finds it: Ruby's files, and no extension.
  def test_without_its_extension_the_error_says_how_to_build_it
    Dir.mktmpdir do |folder|
      FileUtils.cp_r(Dir.glob(File.join(BINDING, "lib/*")).grep_v(/\.so$/), folder)
      code = 'begin; require "shmarray"; rescue LoadError => e; print e.message; end'
      output, = Open3.capture2e(RbConfig.ruby, "--disable-gems", "-I", folder, "-e", code)
      assert_match(/not built, as Bundler builds none for a gem with path: run rake -f .* compile/,
                   output)
    end
  end

  class << self
    # Returns the folder with the stage, the gem and its contents, and what went wrong.
    def made
      @made ||= begin
        folder = Dir.mktmpdir("gem-")
        Minitest.after_run { FileUtils.rm_rf(folder) }
        [folder, make(folder, File.join(folder, "stage"))]
      end
    end

    # Runs a Ruby as where no locale is set. Returns nil, or what it prints if it fails.
    def failure_of(*command, chdir:)
      output, status = Open3.capture2e({ "LC_ALL" => "C" }, RbConfig.ruby, *command, chdir: chdir)
      "#{command.join(" ")}: #{output}" unless status.success?
    end

    private

    # With --strict a warning is an error.
    def make(folder, stage)
      gem = File.join(folder, "it.gem")
      build = %w[-S gem build --strict numo-shared.gemspec --output]
      failure = failure_of(File.join(BINDING, "stage"), stage, chdir: folder) ||
                failure_of(*build, gem, chdir: stage)
      Gem::Package.new(gem).extract_files(File.join(folder, "contents")) unless failure
      failure
    end
  end

  def setup
    skip "cargo is not installed" unless HAS_CARGO
    @made, failure = self.class.made
    assert_nil failure
    @stage = File.join(@made, "stage")
    @folder = Dir.mktmpdir("gem-")
  end

  def teardown
    FileUtils.rm_rf(@folder) if @folder
  end

  # The files in it with their contents.
  def contents
    to = File.join(@made, "contents")
    files = Dir.glob("**/*", base: to).to_h { |path| [path, File.join(to, path)] }
    files.select { |_, file| File.file?(file) }
         .transform_values { |file| File.read(file, **UTF8) }
  end

  # [name, version] of every crate.
  def locked(file)
    File.read(file, **UTF8).scan(/^name = "(.+)"\nversion = "(.+)"/)
  end

  # The crates in the gem as cargo reads them.
  def packages
    metadata = %w[cargo metadata --locked --offline --format-version=1]
    text, said, status = Open3.capture3(*metadata, chdir: @stage)
    assert status.success?, said
    JSON.parse(text).fetch("packages")
  end

  def test_the_texts_of_the_licences_lie_beside_core_and_beside_the_rest
    files = contents
    texts = Dir.children(REPOSITORY).grep(/\ALICENSE/)
    assert_equal %w[LICENSE LICENSE-APACHE LICENSE-MIT], texts.sort
    texts.product(["", "ext/core/"]) do |name, folder|
      assert_equal File.read(File.join(REPOSITORY, name), **UTF8), files["#{folder}#{name}"],
                   "#{folder}#{name}"
    end
    texts.each do |name|
      assert_includes files.fetch("README.md")[/^## Licence\n.*/m].to_s, "`#{name}`"
    end
  end

  # The texts of its licences are those of the project.
  def test_no_crate_of_others_is_in_it
    assert_equal %w[Cargo.toml ext/core/Cargo.toml ext/shmarray/Cargo.toml],
                 contents.keys.grep(/Cargo\.toml\z/).sort
  end

  def test_nothing_in_it_is_for_tests
    paths = contents.keys
    assert_empty paths.select { |path| (path.split("/") & FOR_TESTS).any? }
    of_core = paths.filter_map { |path| path[%r{\Aext/core/([^/]+)}, 1] }.uniq
    assert_equal %w[CHANNELS.md Cargo.toml FORMAT.md LICENSE LICENSE-APACHE LICENSE-MIT LISTS.md
                    PROTOCOL.md build.rs src],
                 of_core.sort
  end

  def test_cargo_finds_the_two_libraries_and_nothing_that_tests_need
    ours = packages.reject { |package| package["source"] }
    targets = ours.to_h do |package|
      [package["name"], package["targets"].flat_map { |target| target["kind"] }]
    end
    assert_equal({ "shmarray" => %w[lib custom-build], "shmarray-ruby" => %w[cdylib custom-build] },
                 targets)
    needed = ours.flat_map { |package| package["dependencies"] }
    assert_empty(needed.select { |each| each["kind"] == "dev" || each["target"]&.include?("loom") })
    refute_empty needed
  end

  def test_the_crates_are_fewer_than_the_repositorys_and_at_the_same_versions
    there = locked(File.join(@stage, "Cargo.lock"))
    assert_empty there - locked(File.join(REPOSITORY, "Cargo.lock"))
    names = there.map(&:first)
    assert_empty names & %w[divan proptest tempfile loom pyo3]
    assert_includes names, "magnus"
  end

  # extconf.rb accepts this version.
  def test_no_crate_needs_a_later_rust_than_the_gem
    needs = packages.to_h { |package| [package["name"], package["rust_version"] || "0"] }
    assert_empty(needs.select { |_, version| Gem::Version.new(version) > Gem::Version.new(NEEDED) })
    assert_equal NEEDED, needs["shmarray-ruby"]
  end

  def test_the_readme_says_which_rust_it_needs
    assert_match(/\bRust #{Regexp.escape(NEEDED)} or later\b/,
                 File.read(File.join(BINDING, "README.md"), **UTF8))
  end

  LINKS = {
    "bug_tracker_uri" => "/issues", "changelog_uri" => "/blob/main/bindings/ruby/CHANGELOG.md",
    "source_code_uri" => "/tree/main/bindings/ruby"
  }.freeze

  def test_the_gem_page_links_to_what_there_is
    spec = Gem::Package.new(File.join(@made, "it.gem")).spec
    repository = WORKSPACE[/^repository = "(.+)"/, 1]
    assert_equal repository, spec.homepage
    LINKS.each { |key, path| assert_equal repository + path, spec.metadata[key], key }
    assert_equal "https://rubydoc.info/gems/numo-shared", spec.metadata["documentation_uri"]
    assert_equal "true", spec.metadata["rubygems_mfa_required"]
  end

  def test_the_changelog_is_in_it_in_the_form_of_keep_a_changelog
    text = contents.fetch("CHANGELOG.md")
    versions = text.scan(/^## (.*)$/).flatten
    assert_match(/\A\[(Unreleased|#{Regexp.escape(Shmarray::VERSION)})\]/, versions.first)
    assert_empty versions.grep_v(/\A\[(Unreleased\]|\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d)\z/)
    kinds = text.scan(/^### (.*)$/).flatten
    assert_includes kinds, "Added"
    assert_empty kinds - %w[Added Changed Deprecated Removed Fixed Security]
  end

  def test_news_for_ruby_are_in_one_changelog
    lines = File.readlines(File.join(REPOSITORY, "CHANGELOG.md"), chomp: true, **UTF8)
    points = lines.grep(/\A\* Ruby:/)
    assert_equal 1, points.size, points.join("\n")
    assert_includes points.first, "(bindings/ruby/CHANGELOG.md)"
  end

  # A copy of the files that the stage reads.
  def copy_of_the_repository
    copy = File.join(@folder, "copy")
    binding = FileUtils.mkdir_p(File.join(copy, "bindings/ruby")).first
    %w[Cargo.toml Cargo.lock core LICENSE LICENSE-APACHE LICENSE-MIT].each do |name|
      FileUtils.cp_r(File.join(REPOSITORY, name), copy)
    end
    (Dir.children(BINDING) - %w[pkg doc test]).each do |name|
      FileUtils.cp_r(File.join(BINDING, name), binding)
    end
    copy
  end

  def files_in(dir)
    Dir.glob("**/*", base: dir).sort
  end

  def test_the_gem_has_no_files_of_a_build_in_place
    expected = files_in(@stage)
    copy = copy_of_the_repository
    %w[
      ext/shmarray/Makefile ext/shmarray/cargo.log ext/shmarray/target/release/it.d
      lib/shmarray_ruby.so
    ].each do |path|
      file = File.join(copy, "bindings/ruby", path)
      FileUtils.mkdir_p(File.dirname(file))
      FileUtils.touch(file)
    end
    stage = File.join(copy, "bindings/ruby/stage")
    assert_nil self.class.failure_of(stage, File.join(@folder, "other"), chdir: @folder)
    assert_equal expected, files_in(File.join(@folder, "other"))
  end

  MUST_BE_FOUND = {
    "[[bench]]" => "core/Cargo.toml", "[[example]]" => "core/Cargo.toml",
    "[dev-dependencies]" => "core/Cargo.toml",
    "[target.'cfg(loom)'.dependencies]" => "core/Cargo.toml",
    "[profile.loom" => "Cargo.toml"
  }.freeze

  MUST_BE_FOUND.each do |table, file|
    define_method("test_the_stage_fails_when_it_cannot_find_#{table}") do
      copy = copy_of_the_repository
      text = File.read(File.join(copy, file), **UTF8)
      assert text.gsub!(table, ""), "#{file} has no #{table}"
      File.write(File.join(copy, file), text)
      stage = File.join(copy, "bindings/ruby/stage")
      failure = self.class.failure_of(stage, File.join(@folder, "stage"), chdir: @folder)
      assert_match(/#{Regexp.escape(file)} has no table .* to leave out/, failure)
    end
  end
end
