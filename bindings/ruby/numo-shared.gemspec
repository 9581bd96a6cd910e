# frozen_string_literal: true

# Built in the folder that `stage` makes, with the core crate beside the extension.

# The version is only in the workspace's Cargo.toml: here when staged, else two folders up.
workspace = [".", "../.."].map { |dir| File.expand_path("#{dir}/Cargo.toml", __dir__) }
                          .find { |file| File.exist?(file) }

Gem::Specification.new do |spec|
  spec.name = "numo-shared"
  spec.version = File.read(workspace, encoding: "UTF-8")[/^version = "(.+)"/, 1]
  spec.summary =
    "Numo arrays, and arrays without Numo, in memory that several processes see at once"
  spec.description =
    "Typed n-dimensional arrays in shared memory: a process makes one, hands over its handle, " \
    "a line of text, and any other process has the same memory as its own array. Real " \
    "Numo::NArrays when numo-narray or numo-narray-alt is installed; Shmarray::Array without."
  spec.authors = ["The shmarray authors"]
  spec.homepage = "https://github.com/shmarray/shmarray"
  spec.licenses = ["MIT", "Apache-2.0"]
  spec.required_ruby_version = ">= 3.1"
  texts = ["LICENSE*", "THIRD-PARTY-LICENSES", "README.md", "CHANGELOG.md"]
  files = ["{lib,ext,sig}/**/*", "Cargo.{toml,lock}", "*.cdx.json", *texts]
  spec.files = Dir.chdir(__dir__) { Dir[*files].select { |file| File.file?(file) } }
  spec.extensions = ["ext/shmarray/extconf.rb"]
  # No dependency on numo-narray or numo-narray-alt: they exclude each other, and either is enough.
  spec.metadata = {
    "bug_tracker_uri" => "#{spec.homepage}/issues",
    "changelog_uri" => "#{spec.homepage}/blob/main/bindings/ruby/CHANGELOG.md",
    "documentation_uri" => "https://rubydoc.info/gems/numo-shared",
    "source_code_uri" => "#{spec.homepage}/tree/main/bindings/ruby",
    "rubygems_mfa_required" => "true"
  }
end
