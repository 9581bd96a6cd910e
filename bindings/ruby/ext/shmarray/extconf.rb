# frozen_string_literal: true

# Writes a Makefile that has cargo build the extension.
#
# SHMARRAY_CARGO_TARGET_DIR or CARGO_TARGET_DIR names a folder for cargo's work that is kept,
# so that the next build is quick. Without it the work is thrown away when the extension is made.

require "rbconfig"

kept = ENV["SHMARRAY_CARGO_TARGET_DIR"] || ENV["CARGO_TARGET_DIR"]
library = "shmarray_ruby.#{RbConfig::CONFIG["DLEXT"]}"
built = "libshmarray_ruby.#{RbConfig::CONFIG["SOEXT"]}"

unless system("cargo", "--version", out: File::NULL, err: File::NULL)
  abort "numo-shared is written in Rust: cargo is needed to build it (by rustup, or the package cargo)"
end

File.write("Makefile", <<~MAKEFILE)
  sitearchdir = #{RbConfig::CONFIG["sitearchdir"]}
  TARGET_DIR = #{File.expand_path(kept || "target")}
  # The Ruby that the bindings are made for is the one that ran extconf.rb.
  CARGO = RUBY="#{RbConfig.ruby}" cargo rustc --release --locked --lib \\
    --manifest-path "#{__dir__}/Cargo.toml" --target-dir "$(TARGET_DIR)"

  all: #{library}

  #{library}:
  \t$(CARGO)
  \tcp "$(TARGET_DIR)/release/#{built}" $@
  \t-#{RbConfig::CONFIG["STRIP"]} $@
  #{"\trm -rf \"$(TARGET_DIR)\"" unless kept}

  install: all
  \tmkdir -p "$(DESTDIR)$(sitearchdir)"
  \tmv #{library} "$(DESTDIR)$(sitearchdir)"

  clean:
  \trm -f #{library}

  .PHONY: all install clean
MAKEFILE
