# frozen_string_literal: true

# A nursery: starts a worker, as run.py describes it, for each line of its input, which is a seed.

require "shmarray"

STEP = 512 # a mark on every page
SIZES = [1, 3, 25, 512, 2000, 7000, 40_000, 150_000].freeze
CHANNEL_SIZE = 2000
MAIL = File.join(ENV.fetch("SHMARRAY_DIR"), "mail")

def say(*words)
  $stdout.syswrite("#{words.join(" ")}\n")
end

def fault(what)
  say("wrong", Process.pid, "ruby:", what)
  exit!(3)
end

class Worker
  DEEDS = [:send_some] * 42 + [:receive] * 42 + [:post] * 5 + [:fetch] * 5 + [:name] * 4 +
          %i[fork_a_child use_a_thread] + [:use_a_channel] * 30

  def initialize(seed, here, there)
    @random, @here, @there = Random.new(seed), here, there
    @held = []
    @channels = {}
    @messages = @checked = 0
  end

  def live
    say("up", Process.pid, "ruby")
    until File.exist?(File.join(MAIL, "stop"))
      8.times { send(DEEDS.sample(random: @random)) }
      report
      reap
    end
  end

  private

  def report
    say("did", Process.pid, "ruby", @messages, @checked)
    @messages = @checked = 0
  end

  def reap
    nil while Process.wait(-1, Process::WNOHANG)
  rescue Errno::ECHILD
    nil
  end

  # The indices of the marks, index 0 last: a process that finds an array by its name knows by the
  # mark there that all others are there.
  def indices(count)
    [count - 1, *(0...count).step(STEP).to_a.reverse]
  end

  def make(name = nil)
    count = SIZES.sample(random: @random)
    seed = @random.rand(1...(2**61)) | 1
    array = Shmarray::Array.create(:int64, [count], name: name)
    indices(count).each { |index| array[index] = seed + index }
    [array, seed]
  end

  def check(array, seed)
    count = array.size
    indices(count).each do |index|
      fault("#{index} of #{count}") unless array[index] == seed + index
    end
    @checked += 1
  end

  def hold(array, seed)
    @held << [array, seed]
    check(*@held.shift) while @held.size > 8
  end

  def send_some
    all = ::Array.new(@random.rand(1..3)) { one_to_send }
    @here.send_arrays(all.map(&:last).join(" "), all.map(&:first), timeout: 0.005)
  rescue Shmarray::TimeoutError
    nil
  ensure
    hold(*all.first) if all && @random.rand < 0.25
  end

  def one_to_send
    !@held.empty? && @random.rand < 0.5 ? @held.sample(random: @random) : make
  end

  def receive
    @there.receive(timeout: 0.005) do |message|
      @messages += 1
      next if @random.rand < 0.125 # unwanted

      message.payload.split.map(&:to_i).each_with_index do |seed, index|
        array = message.array(index, readonly: @random.rand < 0.5)
        check(array, seed)
        hold(array, seed) if @random.rand < 0.3
      end
    end
  rescue Shmarray::TimeoutError
    nil
  end

  # Sends a handle out of band, in a file that any worker may take.
  def post
    array, seed = make
    aside = File.join(MAIL, "new-#{Process.pid}")
    handle = array.handle_to_send
    File.write(aside, "#{seed}\n#{handle}\n")
    begin
      File.link(aside, File.join(MAIL, "letter-#{@random.rand(6)}"))
    rescue Errno::EEXIST
      Shmarray.discard(handle) # there is one that nobody has fetched
    end
    File.unlink(aside)
  end

  def fetch
    taken = File.join(MAIL, "taken-#{Process.pid}")
    begin
      File.rename(File.join(MAIL, "letter-#{@random.rand(6)}"), taken)
    rescue Errno::ENOENT
      return
    end
    seed, handle = File.read(taken).split
    if @random.rand < 0.25
      Shmarray.discard(handle)
    else
      check(Shmarray::Array.attach(handle), seed.to_i)
    end
    File.unlink(taken)
  end

  def name
    name = "soak-#{@random.rand(4)}"
    case @random.rand(3)
    when 0 then hold(*make(name))
    when 1
      array = Shmarray::Array.attach(name)
      check(array, array[0]) unless array[0].zero? # else its maker has not come so far
    else Shmarray.unlink(name)
    end
  rescue Errno::EEXIST, Errno::ENOENT
    nil
  end

  # Sends or receives by a channel that all workers have: a queue or a broadcast.
  def use_a_channel
    mode = %i[queue broadcast].sample(random: @random)
    when_full = mode == :queue ? :block : :drop_oldest
    @channels[mode] ||= Shmarray::Channel.create("soak-#{mode}", :int64, [CHANNEL_SIZE], slots: 5,
                                                 mode: mode, when_full: when_full, exist_ok: true)
    @random.rand < 0.5 ? send_by(@channels[mode]) : receive_by(@channels[mode])
  rescue Shmarray::TimeoutError, EOFError
    nil
  end

  def send_by(channel)
    seed = @random.rand(1...(2**61)) | 1
    channel.loan(timeout: 0.005, meta: seed.to_s) do |array|
      indices(CHANNEL_SIZE).each { |index| array[index] = seed + index }
    end
  end

  def receive_by(channel)
    channel.receive(timeout: 0.005) do |array|
      check(array, channel.last.meta.to_i)
      @messages += 1
    end
  end

  # Checks the held arrays in a thread, beside the other operations; then collects the garbage.
  def use_a_thread
    kept = @held.dup
    Thread.new { kept.each { |one| check(*one) } }
    GC.start if @random.rand < 0.2
  end

  # Forks a child that goes on alone, whatever its parent does, and ends in one of several ways.
  def fork_a_child
    return if fork

    @random.rand(60).times do |round|
      @held.each { |array, seed| check(array, seed) }
      next unless (round % 8).zero?

      send_some
      use_a_channel
    end
    case @random.rand(3)
    when 0 then exit!(0)
    when 1 then Process.kill(:KILL, Process.pid)
    else exit(0)
    end
  end
end

# Starts a grandchild, so that the supervisor, which counts, becomes its parent.
def start(seed, here, there)
  child = fork do
    exit!(0) if fork
    Process.setsid
    $stdin.close
    begin
      Worker.new(seed, here, there).live
    rescue StandardError => e # what it is does not matter: it is a fault
      fault(e.full_message(highlight: false).lines.first(3).join(" ").tr("\n", " "))
    end
    exit(0)
  end
  Process.wait(child)
end

here, there = ARGV.map { |fd| Shmarray::Pipe.from_fd(Integer(fd)) }
$stdin.each_line { |line| start(Integer(line), here, there) }
