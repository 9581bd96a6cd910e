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
    message = edges.receive do |frame, received|
      means << frame.mean
      received
    end
  rescue EOFError
    sleep 0.1 # no filter sends now
    next
  end
  missed += message.missed
  next if means.size < per_line

  age = (Process.clock_gettime(Process::CLOCK_REALTIME, :nanosecond) - message.time_ns) / 1e6
  mean = means.sum / means.size
  puts "#{means.size} frames of #{message.meta}, edges #{mean.round(2)}, #{missed} missed, " \
       "#{age.round(2)} ms old"
  $stdout.flush
  means.clear
  printed += 1
end
