# frozen_string_literal: true

# A report: says now and then how many frames came, how bright their edges are, and how old they
# were. It may be stopped and started again while the others run.
#
#     ruby report.rb [FRAMES_PER_LINE [LINES]]
require "shmarray"

per_line = Integer(ARGV.fetch(0, 30))
lines = Integer(ARGV.fetch(1, 0))
edges = Shmarray::Channel.open("edges", timeout: nil)
means = []
missed = printed = 0
until printed == lines && lines.positive?
  begin
    means << edges.receive(&:mean)
  rescue EOFError
    sleep 0.1 # no filter sends now
    next
  end
  missed += edges.last.missed
  next if means.size < per_line

  age = (Process.clock_gettime(Process::CLOCK_REALTIME, :nanosecond) - edges.last.time_ns) / 1e6
  mean = means.sum / means.size
  puts "#{means.size} frames of #{edges.last.meta}, edges #{mean.round(2)}, #{missed} missed, " \
       "#{age.round(2)} ms old"
  $stdout.flush
  means.clear
  printed += 1
end
