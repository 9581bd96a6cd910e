# frozen_string_literal: true

require_relative "helper"

# The messages of an installation that cannot build the gem. Stand-ins for cargo and rustc lie in
# @bin.
class ExtconfTest < SharedMemoryTest
  EXTCONF = File.expand_path("../ext/shmarray/extconf.rb", __dir__)
  NEEDED = File.read(File.expand_path("../../../Cargo.toml", __dir__))[/^rust-version = "(.+)"/, 1]
  SENTENCE = "numo-shared needs Rust #{NEEDED} or later to be built, and %s: " \
             "rustup (https://rustup.rs) installs it%s.\n"

  def setup
    @folder = Dir.mktmpdir("extconf-")
    @bin = File.join(@folder, "bin")
    Dir.mkdir(@bin)
    %w[cargo rustc].each do |program|
      stand_in(program, "echo '#{program} 99.0.0 (0123abc 2099-01-01)'")
    end
  end

  def teardown
    FileUtils.rm_rf(@folder)
  end

  def stand_in(program, script)
    file = File.join(@bin, program)
    File.write(file, "#!/bin/sh\n#{script}\n")
    File.chmod(0o755, file)
    file
  end

  def extconf(env = {}, file: EXTCONF)
    unset = %w[CARGO RUSTC CARGO_TARGET_DIR SHMARRAY_CARGO_TARGET_DIR].to_h { |name| [name, nil] }
    environment = { "PATH" => @bin, **unset, **env }
    output, status = Open3.capture2e(environment, RbConfig.ruby, file, chdir: @folder)
    [output.force_encoding("UTF-8"), status]
  end

  # Asserts that extconf.rb refuses with this fault and this remedy, and writes no Makefile.
  def assert_refuses(wrong, remedy = "", env = {})
    output, status = extconf(env)
    assert_equal [format(SENTENCE, wrong, remedy), false], [output, status.success?]
    refute_path_exists File.join(@folder, "Makefile")
  end

  def assert_accepts(env = {})
    output, status = extconf(env)
    assert_equal ["", true], [output, status.success?]
    assert_path_exists File.join(@folder, "Makefile")
  end

  def test_without_cargo_it_says_what_is_needed_and_who_installs_it
    File.delete(File.join(@bin, "cargo"))
    assert_refuses "no cargo was found"
  end

  def test_without_rustc_it_says_so
    File.delete(File.join(@bin, "rustc"))
    assert_refuses "no rustc was found"
  end

  def test_a_cargo_that_cannot_be_run_is_none
    File.chmod(0o644, File.join(@bin, "cargo"))
    assert_refuses "no cargo was found"
  end

  %w[cargo rustc].each do |program|
    define_method("test_an_old_#{program}_is_named_with_its_version") do
      stand_in(program, "echo '#{program} 1.63.0 (4b91a6ea7 2022-08-08)'")
      assert_refuses "#{program} 1.63.0 was found", " by `rustup update stable`"
    end

    define_method("test_a_#{program}_of_a_rustup_without_toolchain_is_named_with_its_error") do
      stand_in(program, "echo 'info: looking' >&2; " \
                        "echo 'error: rustup could not choose a version' >&2; exit 1")
      assert_refuses "#{program} --version fails (error: rustup could not choose a version)",
                     " by `rustup default stable`"
    end
  end

  def test_an_error_in_another_language_is_passed_on_where_no_locale_is_set
    stand_in("rustc", "echo 'error: kein Werkzeug für …' >&2; exit 1")
    wrong = "rustc --version fails (error: kein Werkzeug für …)"
    assert_refuses wrong, " by `rustup default stable`", { "LC_ALL" => "C" }
  end

  def test_the_last_version_that_is_too_old_and_the_first_that_is_not
    major, minor = NEEDED.split(".").map(&:to_i)
    stand_in("rustc", "echo 'rustc #{major}.#{minor - 1}.9 (0123abc 2025-01-01)'")
    assert_refuses "rustc #{major}.#{minor - 1}.9 was found", " by `rustup update stable`"
    stand_in("rustc", "echo 'rustc #{major}.#{minor}.0-beta.2 (0123abc 2025-01-01)'")
    assert_accepts
  end

  def test_versions_are_compared_as_numbers
    stand_in("rustc", "echo 'rustc 1.100.0 (0123abc 2027-01-01)'")
    assert_accepts
  end

  def test_a_rustc_without_a_version_is_left_to_cargo
    stand_in("rustc", "echo 'a rustc of our own'")
    assert_accepts
  end

  def test_the_version_that_rustup_tells_of_is_not_that_of_rustc
    stand_in("rustc", "echo 'info: rustup 1.28.2' >&2; echo 'rustc 99.0.0'")
    assert_accepts
  end

  def test_cargo_and_rustc_are_those_that_the_environment_names
    old = stand_in("old", "echo 'rustc 1.63.0'")
    assert_refuses "#{old} 1.63.0 was found", " by `rustup update stable`", { "RUSTC" => old }
    assert_refuses "#{old} 1.63.0 was found", " by `rustup update stable`", { "CARGO" => old }
    assert_refuses "no /nowhere/cargo was found", "", { "CARGO" => "/nowhere/cargo" }
    %w[cargo rustc].each do |program|
      File.rename(File.join(@bin, program), File.join(@bin, "my #{program}"))
    end
    assert_accepts({ "CARGO" => File.join(@bin, "my cargo"),
                     "RUSTC" => File.join(@bin, "my rustc") })
  end

  # As in the gem, where the workspace's Cargo.toml is a different number of folders up.
  def test_the_version_is_that_of_the_workspace_above_it
    file = File.join(@folder, "ext/shmarray/extconf.rb")
    FileUtils.mkdir_p(File.dirname(file))
    FileUtils.cp(EXTCONF, file)
    FileUtils.cp(File.expand_path("../Cargo.toml", EXTCONF), File.dirname(file))
    File.write(File.join(@folder, "Cargo.toml"), %([workspace.package]\nrust-version = "99.1"\n))
    output, status = extconf(file: file)
    assert_match(/needs Rust 99\.1 or later to be built, and cargo 99\.0\.0 was found/, output)
    refute status.success?
  end

  # Runs the Makefile with a cargo that runs this script.
  def build(script, env = {})
    stand_in("cargo", "case $1 in --version) echo 'cargo 99.0.0';; *) #{script};; esac")
    assert_accepts
    path = "#{@bin}:#{ENV.fetch("PATH")}"
    Open3.capture2e({ "PATH" => path, **env }, "make", chdir: @folder)
  end

  def test_the_time_of_an_installation_makes_cargo_compile_nothing_again
    output, = build('echo "its time: $SOURCE_DATE_EPOCH."', { "SOURCE_DATE_EPOCH" => "1" })
    assert_match(/^its time: \.$/, output)
  end

  LIBCLANG = /^numo-shared needs libclang to be built: install it .*libclang-dev.*LIBCLANG_PATH$/

  def test_a_build_without_libclang_ends_with_what_to_install
    output, status = build("echo 'Unable to find libclang: \"no libraries\"' >&2; " \
                           "echo 'much more' >&2; exit 101")
    refute status.success?
    assert_match LIBCLANG, output.lines(chomp: true)[-2]
    assert_match(/much more/, output)
  end

  def test_a_build_that_fails_otherwise_does_not_speak_of_libclang
    output, status = build("echo 'error: no space left' >&2; exit 101")
    refute status.success?
    assert_match(/no space left/, output)
    refute_match LIBCLANG, output
  end

  def test_a_build_that_succeeds_leaves_the_extension_alone
    library = "target/release/libshmarray_ruby.#{RbConfig::CONFIG["SOEXT"]}"
    output, status = build("mkdir -p target/release; echo code > #{library}; " \
                           "echo '   Compiling' >&2")
    assert status.success?, output
    assert_equal ["Makefile", "bin", "shmarray_ruby.#{RbConfig::CONFIG["DLEXT"]}"],
                 Dir.children(@folder).sort
    assert_match(/Compiling/, output)
  end
end
