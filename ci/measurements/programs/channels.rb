# frozen_string_literal: true

# Measures channels in Ruby: prints the seconds of one message as a line of JSON.
#
#     ruby channels.rb ask NAME BYTES COUNT poll|block
#     ruby channels.rb answer NAME BYTES poll|block
require "shmarray"

WARM_UP = 100
TIMEOUT = ARGV.last == "poll" ? 0 : nil

def receive(channel)
  channel.receive(timeout: TIMEOUT) { |frame| frame[0] }
rescue Shmarray::TimeoutError
  retry # it polls
end

def post(channel, first)
  channel.loan { |frame| frame[0] = first }
end

def ask(name, bytes, count)
  there, back = %w[there back].map do |part|
    Shmarray::Channel.create("#{name}.#{part}", :uint8, [bytes], slots: 4)
  end
  puts '"ready"'
  $stdout.flush
  began = nil
  (-WARM_UP...count).each do |number|
    began = Process.clock_gettime(Process::CLOCK_MONOTONIC) if number.zero?
    post(there, number & 255)
    receive(back) == number & 255 or abort("another frame came back")
  end
  puts (Process.clock_gettime(Process::CLOCK_MONOTONIC) - began) / count
end

def answer(name)
  there, back = %w[there back].map do |part|
    Shmarray::Channel.open("#{name}.#{part}", timeout: nil)
  end
  loop { post(back, receive(there)) }
rescue EOFError
  nil
end

if ARGV[0] == "ask"
  ask(ARGV[1], Integer(ARGV[2]), Integer(ARGV[3]))
else
  answer(ARGV[1])
end
