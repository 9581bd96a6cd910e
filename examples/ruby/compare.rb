# frozen_string_literal: true

# Runs the simulators without and with shared memory, in turn, and prints how much faster they
# became; runs the other examples once.
#
#     . ci/env; ruby examples/ruby/compare.rb [--small] [--rounds N]
#
# All ways must have the same result. The programs measure the times themselves. Printed are the
# median of the rounds, and of the ratios of each round the median, the least and the greatest.
require "optparse"
require "rbconfig"

HERE = __dir__
WAYS = %w[original changed in_place].freeze

def output_of(program, *arguments)
  output = IO.popen([RbConfig.ruby, File.join(HERE, program), *arguments], &:read)
  $?.success? ? output : abort("#{program} failed: #{output}")
end

def median(numbers)
  numbers.sort[numbers.size / 2]
end

def simulators(small, rounds)
  results = []
  seconds = Hash.new { |all, way| all[way] = [] }
  rounds.times do
    WAYS.each do |way|
      said = output_of("simulators/#{way}.rb", *("--small" if small)).lines.to_h(&:split)
      results << said["result"]
      seconds[way] << Float(said["seconds"])
    end
  end
  abort "the results differ: #{results.uniq}" unless results.uniq.size == 1
  seconds
end

def say(seconds)
  puts format("simulators: %.0f ms by Marshal through a pipe", median(seconds["original"]) * 1e3)
  (WAYS - ["original"]).each do |way|
    ratios = seconds["original"].zip(seconds[way]).map { |theirs, ours| theirs / ours }.sort
    puts format("  %.0f ms %s: %.1f times as fast (%.1f to %.1f)", median(seconds[way]) * 1e3,
                way.tr("_", " "), median(ratios), *ratios.minmax)
  end
end

options = { rounds: 3 }
OptionParser.new do |parser|
  parser.on("--small", "sizes that only show that it works")
  parser.on("--rounds N", Integer)
end.parse!(into: options)

puts output_of("in_place.rb"), output_of("with_python/ruby.rb")
say(simulators(options[:small], options[:rounds]))
puts "3 passed, 0 failed"
