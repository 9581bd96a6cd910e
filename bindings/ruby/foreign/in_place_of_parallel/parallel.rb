# frozen_string_literal: true

# Gives Numo::Parallel the name of the gem parallel, for that gem's specs. In its checkout:
#
#   RUBYLIB=bindings/ruby/foreign/in_place_of_parallel rspec spec/parallel_spec.rb

require "numo/shared"

Parallel = Numo::Parallel
Parallel::DeadWorker = Shmarray::WorkerLost
