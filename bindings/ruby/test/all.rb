# frozen_string_literal: true

# Runs all tests: `ruby test/all.rb` with the gem installed, or with -I to a build of it.

Dir[File.join(__dir__, "**/*_test.rb")].sort.each { |file| require file }
