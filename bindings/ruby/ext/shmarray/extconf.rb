# frozen_string_literal: true

# Writes a Makefile by which cargo builds the extension, or prints what is missing for that.
#
# SHMARRAY_CARGO_TARGET_DIR or CARGO_TARGET_DIR names a target folder that is kept, so that the next
# build is quick. Without it the folder is removed after the build. CARGO and RUSTC name programs to
# use instead of those on the PATH.

require "open3"
require "pathname"
require "rbconfig"
require "shellwords"

# The version is only in the workspace's Cargo.toml: two folders up in the gem, four in the
# repository.
NEEDED = Pathname.new(__dir__).ascend.lazy.map { |dir| dir / "Cargo.toml" }.select(&:file?)
                 .filter_map { |file| file.read(encoding: "UTF-8")[/^rust-version = "(.+)"/, 1] }
                 .first

def numbers(version)
  version.split(".").map(&:to_i)
end

# Returns what is wrong with a Rust program, and the rustup command against it; nil if nothing is. A
# pre-release is as good as its release, as for cargo. A program that prints no version is left to
# cargo.
def lack(program)
  said, complaint, status = Open3.capture3(program, "--version", binmode: true)
  unless status.success?
    return "#{program} --version fails (#{reason(complaint)})", " by `rustup default stable`"
  end

  found = said[/\d+\.\d+\.\d+/]
  return unless found && (numbers(found) <=> numbers(NEEDED)).negative?

  ["#{program} #{found} was found", " by `rustup update stable`"]
rescue Errno::ENOENT, Errno::EACCES
  ["no #{program} was found", ""]
end

# rustup prints first what it has looked for.
def reason(complaint)
  lines = complaint.lines(chomp: true)
  lines.grep(/\Aerror/).first || lines.first
end

def check_rust(*programs)
  wrong, remedy = programs.lazy.filter_map { |program| lack(program) }.first
  return unless wrong

  abort "numo-shared needs Rust #{NEEDED} or later to be built, and #{wrong}: " \
        "rustup (https://rustup.rs) installs it#{remedy}."
end

kept = ENV["SHMARRAY_CARGO_TARGET_DIR"] || ENV["CARGO_TARGET_DIR"]
library = "shmarray_ruby.#{RbConfig::CONFIG["DLEXT"]}"
built = "libshmarray_ruby.#{RbConfig::CONFIG["SOEXT"]}"
cargo = ENV["CARGO"] || "cargo"

check_rust(cargo, ENV["RUSTC"] || "rustc")

# bindgen's message is far above the end of a failed build's output.
File.write("Makefile", <<~MAKEFILE)
  sitearchdir = #{RbConfig::CONFIG["sitearchdir"]}
  TARGET_DIR = #{File.expand_path(kept || "target")}
  # The Ruby that the bindings are made for is the one that ran extconf.rb. `gem install` sets
  # SOURCE_DATE_EPOCH to the present time, for which cargo would compile all C again.
  BUILD = env -u SOURCE_DATE_EPOCH RUBY="#{RbConfig.ruby}" \\
    #{cargo.shellescape} rustc --release --locked --lib \\
    --manifest-path "#{__dir__}/Cargo.toml" --target-dir "$(TARGET_DIR)"

  all: #{library}

  #{library}:
  \t{ $(BUILD) 2>&1 || echo "cargo failed"; } | tee cargo.log
  \t@! grep -q "Unable to find libclang" cargo.log || \\
  \t  echo "numo-shared needs libclang to be built:" \\
  \t  "install it (Debian: libclang-dev, Fedora: clang-devel)," \\
  \t  "or name its folder in LIBCLANG_PATH" >&2
  \t@! grep -qx "cargo failed" cargo.log
  \tcp "$(TARGET_DIR)/release/#{built}" $@
  \t-#{RbConfig::CONFIG["STRIP"]} $@
  \trm -f cargo.log
  #{"\trm -rf \"$(TARGET_DIR)\"" unless kept}

  install: all
  \tmkdir -p "$(DESTDIR)$(sitearchdir)"
  \tmv #{library} "$(DESTDIR)$(sitearchdir)"

  clean:
  \trm -f #{library} cargo.log

  .PHONY: all install clean
MAKEFILE
