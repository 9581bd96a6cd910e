# frozen_string_literal: true

module Numo
  module Parallel
    # A progress bar of the gem ruby-progressbar, as the gem parallel shows it.
    module Progress
      FORMAT = "%t |%E | %B | %a"

      # Returns a block that {Run} calls after each job.
      def self.start(progress, total)
        raise ArgumentError, "progress: a producer's number of items is unknown" unless total

        require_bar
        options = progress == true ? { title: "Progress" } : progress
        options = { title: options.to_str } if options.respond_to?(:to_str)
        bar = ProgressBar.create({ total:, format: FORMAT }.merge(options))
        -> { bar.increment }
      end

      def self.require_bar
        require "ruby-progressbar"
      rescue LoadError
        raise LoadError, "progress: needs the gem ruby-progressbar"
      end
    end
    private_constant :Progress
  end
end
