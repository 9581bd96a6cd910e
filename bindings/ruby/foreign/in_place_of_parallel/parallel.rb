# frozen_string_literal: true

# Numo::Parallel by the name of the gem parallel, for that gem's specs.
#
#   RUBYLIB=bindings/ruby/foreign/in_place_of_parallel rspec spec/parallel_spec.rb     # in its
#   checkout

require "numo/shared"

Parallel = Numo::Parallel
Parallel::DeadWorker = Shmarray::WorkerLost
