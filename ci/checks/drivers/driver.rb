# frozen_string_literal: true

# The driver of Shmarray::Array. README.md says how it must answer.

require "json"
require "shmarray"

# The commands of the line protocol; a subclass implements them for its arrays.
class Driver
  LAYOUTS = {
    "c" => ->(make) { make.([2, 3, 4]) },
    "f" => ->(make) { make.([2, 3, 4], order: :F) },
    "strided" => ->(make) { make.([4, 6, 4]).then { |a| a[(0..-1) % 2, (0..-1) % 2, true] } },
    "reversed" => ->(make) { make.([2, 3, 4]).then { |a| a[(-1..0) % -1, true, (-1..0) % -1] } },
    "transposed" => ->(make) { make.([4, 3, 2]).transpose },
    "scalar" => ->(make) { make.([]) },
    "empty" => ->(make) { make.([0, 3]) }
  }.freeze
  CHANNEL = Shmarray::Channel
  WARM_UP = 100
  LARGE = 1 << 24
  TIMEOUT = 0.005
  ENDINGS = {
    "exit" => -> { exit }, "raise" => -> { raise UncaughtError }, "_exit" => -> { exit!(0) },
    "kill" => -> { Process.kill(:KILL, Process.pid) },
    "abort" => -> { Process.kill(:ABRT, Process.pid) || sleep }
  }.freeze

  LIST = Shmarray::List
  DICT = Shmarray::Dict
  LIST_SIZE = 5
  CHARACTERS = "é\0\"😀"
  ABSENT = { strings: "absent", bytes: "absent".b, numbers: 0 }.freeze
  FIELDS = {
    "records" => {
      "text" => "strings", "size" => "maybe-<i8", "sample" => "vectors-<f4",
      "größe" => "lists-maybe-strings", "point" => "points", "none" => "nothing"
    },
    "points" => { "x" => "<f8", "flag" => "|b1" }
  }.freeze

  # Ends the program as an error of a user's does.
  class UncaughtError < StandardError; end

  def initialize
    @held, @values, @channels, @threads = {}, {}, {}, []
  end

  def answer(line)
    command, *words = line.split(" ", line.start_with?("attach ") ? 4 : -1)
    public_send(:"do_#{command}", *words)
  rescue SystemExit, UncaughtError
    raise
  rescue Exception => error # whatever it is, the runner wants to know
    "error #{error.class} #{error.message.gsub(/\s*\n\s*/, " ")}"
  end

  def do_hello
    "ok ruby #{RUBY_VERSION}"
  end

  def do_dtypes
    "ok #{Shmarray::DTYPES.join(" ")}"
  end

  def do_create(key, dtype, layout)
    array = LAYOUTS.fetch(layout).call(->(shape, **options) { make(dtype, shape, **options) })
    fill_pattern(array, dtype)
    keep(key, array)
  end

  def do_attach(key, access, text)
    @held[key] = nil
    keep(key, attached(text, access == "ro"))
    dtype, shape, strides = facts(@held[key])
    "ok #{dtype} #{list(shape)} #{list(strides)}"
  end

  def do_compare(key)
    compare(@held.fetch(key), facts(@held.fetch(key))[0])
  end

  def do_write(key)
    array = @held.fetch(key)
    set(array, indices(array).last, pattern(facts(array)[0], 100))
    "ok"
  rescue RuntimeError => error # FrozenError is one
    raise unless error.message.match?(/read-only|frozen/)

    "refused #{error.message}"
  end

  def do_written(key)
    array = @held.fetch(key)
    found = get(array, indices(array).last)
    found == pattern(facts(array)[0], 100) ? "ok" : "bad #{indices(array).size - 1} #{found}"
  end

  def do_bytes(key)
    hex = to_bytes(@held.fetch(key)).unpack1("H*")
    "ok #{hex.empty? ? "-" : hex}"
  end

  def do_handle(key)
    "ok #{handle_text(@held.fetch(key))}"
  end

  def do_publish(name, dtype)
    channel = @channels["published"] = make_channel(name, dtype, [2, 3, 4])
    channel.loan(meta: dtype) { |array| fill_pattern(array, dtype) }
    "ok #{channel.handle}"
  end

  def do_receive(text)
    channel = self.class::CHANNEL.open(text)
    channel.receive { |array, message| "#{compare(array, channel.dtype)} #{message.meta}" }
  ensure
    channel&.close
  end

  def do_list(key, kind)
    form, rest = kind.split("-", 2)
    @held[key] = if form == "dictionary"
                   self.class::DICT.new(items(rest).zip(items("maybe-<i8")).to_h)
                 else
                   self.class::LIST.new(items(kind))
                 end
    "ok #{@held[key].handle}"
  end

  def do_items(handle, *fields)
    "ok #{JSON.generate(attached_list(handle, fields).map { |item| plain(item) })}"
  end

  def do_find(handle)
    dict = self.class::DICT.attach(handle)
    keys = [*dict.keys, ABSENT.fetch(dict.keys.kind)]
    "ok #{JSON.generate(keys.map { |key| plain([key, dict.fetch(key, "absent")]) })}"
  end

  def do_values(handle, *fields)
    "ok #{JSON.generate(plain(attached_list(handle, fields).values))}"
  end

  def do_offsets(handle, *fields)
    "ok #{JSON.generate(plain(attached_list(handle, fields).offsets))}"
  end

  # The first element is written last: where it is there, all are.
  def do_make(key, count, value, name = "-", mode = "600", persist = "0")
    options = name == "-" ? {} : { name: name, persist: persist == "1" }
    array = make("<i8", [count.to_i], mode: mode.to_i(8), **options)
    fill(array, value.to_i) unless value == "0"
    keep(key, array, value == "0" ? nil : value.to_i)
  end

  def do_share(key, count, value)
    keep(key, share(count.to_i, value.to_i), value.to_i)
  end

  def do_view(key, other)
    keep(key, @held.fetch(other)[(1..-1) % 2])
  end

  def do_fill(key, value)
    fill(@held.fetch(key), value.to_i)
    @values[key] = value.to_i
    "ok"
  end

  def do_is(key, value)
    array = @held.fetch(key)
    all?(array, value.to_i) ? "ok #{array.size}" : "bad 0 #{get(array, [0])}"
  end

  def do_get(key)
    "ok #{get(@held.fetch(key), [0])}"
  end

  def do_check
    wrong = @values.keys.reject { |key| all?(@held[key], @values[key]) }
    wrong.empty? ? "ok #{@values.size}" : "bad #{wrong.join(" ")}"
  end

  def do_drop(*keys)
    keys = @held.keys if keys.empty? && @channels.each_value(&:close).clear
    Fiber.new { drop(keys) }.resume # nothing of them stays on the stack
    4.times { GC.start }
    "ok"
  end

  def do_unlink(name)
    Shmarray.unlink(name)
    "ok"
  end

  def do_sweep
    "ok #{Shmarray.sweep[:segments]}"
  end

  def do_segments
    arrays = Shmarray.segments.select { |info| info[:kind] == :array }
    ["ok", *arrays.map { |info| info[:name] || "-" }.sort].join(" ")
  end

  # Messages.

  def do_ticket(key)
    "ok #{ticket_text(@held.fetch(key))}"
  end

  def do_discard(handle)
    Shmarray.discard(handle)
    "ok"
  end

  def do_pipes(*fds)
    @pipes = fds.map { |fd| Shmarray::Pipe.from_fd(Integer(fd)) }
    "ok"
  end

  def do_send(*keys)
    found = keys & @values.keys
    arrays = found.map { |key| @held[key] }
    @pipes[0].send_arrays(@values.values_at(*found).join(" "), arrays, timeout: TIMEOUT)
    "ok #{found.size}"
  rescue Shmarray::TimeoutError
    "none"
  end

  def do_take(key, access)
    @pipes[1].receive(timeout: TIMEOUT) do |message|
      values = message.payload.split.map(&:to_i)
      values.each_with_index do |value, index|
        next if key == "-"

        array = message.array(index, readonly: access == "ro")
        return "bad #{index}" unless all?(array, value)

        keep(key, array, value)
      end
      "ok #{values.size}"
    end
  rescue Shmarray::TimeoutError
    "none"
  end

  # Sends a value, or receives one where it is 0.
  def do_channel(mode, value)
    channel = @channels[mode] ||= Shmarray::Channel.create(
      "common-#{mode}", :int64, [2000],
      slots: 5, mode: mode.to_sym, exist_ok: true,
      when_full: mode == "broadcast" ? :drop_oldest : :block
    )
    value == "0" ? receive_by(channel) : send_by(channel, value)
  rescue Shmarray::TimeoutError, EOFError
    "none"
  end

  # Processes.

  # Forks a process that goes on alone: the host adopts it.
  def do_fork(into, out)
    child = fork
    return Process.wait2(child)[1].success? ? "ok" : "error IOError no child" if child

    exit!(0) if fork
    $stdin.reopen(into, "r")
    $stdout.reopen(out, "w")
    $stdout.sync = true
    "ok #{Process.pid}"
  end

  def do_session
    Process.setsid
    "ok"
  end

  def do_directory(path)
    ENV["SHMARRAY_DIR"] = path
    "ok"
  end

  def do_user(number)
    Process.groups = []
    Process::GID.change_privilege(number.to_i)
    Process::UID.change_privilege(number.to_i)
    "ok"
  end

  # The fd of Ruby's own timer cannot be had as an IO.
  def do_close_fds(first)
    Dir.children("/proc/self/fd").map(&:to_i).select { |fd| fd >= first.to_i }.each do |fd|
      IO.for_fd(fd).close
    rescue Errno::EBADF, ArgumentError
      nil
    end
    "ok"
  end

  def do_threads(count)
    @stop = count == "0"
    @threads = @threads.each(&:join).clear if @stop
    @rounds = 0 unless @stop
    count.to_i.times { @threads << Thread.new { work_in_thread until @stop } }
    "ok"
  end

  def do_rounds
    "ok #{@rounds}"
  end

  def do_spawn(into, out)
    "ok #{spawn("cat", in: into, out: out)}"
  end

  def do_exec(program)
    exec(program)
  end

  def do_end(how)
    ENDINGS.fetch(how).call
  end

  # Measurements: the loops are timed here. The collector drops arrays; its run after each hundred
  # arrays, or each large one, is counted.

  def do_time_create(size, count)
    create_and_drop(size.to_i, count.to_i / 10 + 1)
    "ok #{each(count.to_i) { create_and_drop(size.to_i, count.to_i) }}"
  end

  # The first handle is attached before the clock starts: it pays for what is done once.
  def do_time_attach(count, path)
    first, *handles = File.readlines(path, chomp: true)
    kept = Shmarray::Array.attach(first)
    arrays = []
    cold = attach_all(handles, arrays)
    held = each(count.to_i) { count.to_i.times { Shmarray::Array.attach(handles[0]) } }
    arrays.clear
    GC.start
    kept && "ok #{cold} #{held} #{attach_all(handles, arrays)}"
  end

  def do_time_ask(name, size, count, wait)
    there, back = %w[there back].map do |part|
      Shmarray::Channel.create("#{name}.#{part}", :uint8, [size.to_i], slots: 4)
    end
    ask = lambda do |number|
      there.loan { |frame| frame[0] = number & 255 }
      receive_first(back, wait) == number & 255 or raise "another frame came back"
    end
    WARM_UP.times(&ask)
    "ok #{each(count.to_i) { count.to_i.times(&ask) }}"
  ensure
    [there, back].each { |channel| channel&.close } # the other driver waits for that
  end

  def do_time_answer(name, wait)
    there, back = %w[there back].map do |part|
      Shmarray::Channel.open("#{name}.#{part}", timeout: nil)
    end
    loop do
      first = receive_first(there, wait)
      back.loan { |frame| frame[0] = first }
    end
  rescue EOFError
    "ok"
  ensure
    [there, back].each { |channel| channel&.close }
  end

  private

  def keep(key, array, value = nil)
    @held[key] = array
    value ? @values[key] = value : @values.delete(key)
    "ok #{handle_text(array)}"
  end

  def drop(keys)
    keys.each { |key| [@held, @values].each { |table| table.delete(key) } }
  end

  def fill(array, value)
    array[1..-1][nil] = value if array.size > 1
    array[0] = value
  end

  def all?(array, value)
    to_bytes(array) == [value].pack("q") * array.size
  end

  def share(_count, _value)
    raise NotImplementedError, "Ruby has no private arrays without Numo"
  end

  def ticket_text(array)
    array.handle_to_send
  end

  def send_by(channel, value)
    channel.loan(timeout: TIMEOUT, meta: value) { |array| fill(array, value.to_i) }
    "ok 0"
  end

  def receive_by(channel)
    channel.receive(timeout: TIMEOUT) do |array, message|
      all?(array, message.meta.to_i) ? "ok 1" : "bad 0"
    end
  end

  def work_in_thread
    own = Shmarray::Array.create(:int64, 1000)
    again = Shmarray::Array.attach(own.handle, readonly: true)
    own[999] = 7
    raise "not the same" unless again[999] == 7

    @rounds += 1
    Thread.pass # or it would run for a tenth of a second
  end

  def each(count)
    began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    yield
    (Process.clock_gettime(Process::CLOCK_MONOTONIC) - began) / count
  end

  def create_and_drop(size, count)
    count.times do |number|
      Shmarray::Array.create(:uint8, [size])
      GC.start if size > LARGE || number % 100 == 99
    end
    GC.start
  end

  def attach_all(handles, arrays)
    each(handles.size) { handles.each { |handle| arrays << Shmarray::Array.attach(handle) } }
  end

  def receive_first(channel, wait)
    channel.receive(timeout: wait == "poll" ? 0 : nil) { |frame| frame[0] }
  rescue Shmarray::TimeoutError
    retry # it polls
  end

  def items(kind)
    Array.new(kind == "empty" ? 0 : LIST_SIZE) { |k| item(kind, k) }
  end

  # Item k of a list of this kind.
  def item(kind, number)
    form, rest = kind.split("-", 2)
    case form
    when "maybe" then number % 3 == 1 ? nil : item(rest, number)
    when "lists" then Array.new(number % 3) { |j| item(rest, number + j) }
    when "vectors" then elements(rest, [number % 3], number)
    when "images" then elements(rest, [number % 3, 2], number)
    when "same" then elements(rest, [2, 2], number)
    when "strings" then CHARACTERS[0, number]
    when "bytes" then "\x00\x55\xaa\xff".b[0, number]
    when "nothing" then nil
    when *FIELDS.keys then FIELDS[form].transform_values { |field| item(field, number) }
    else pattern(kind, number)
    end
  end

  def elements(dtype, shape, first)
    make(dtype, shape).tap { |array| fill_pattern(array, dtype, first) }
  end

  def attached_list(handle, fields)
    fields.reduce(self.class::LIST.attach(handle)) { |list, name| list.field(name) }
  end

  # An item as JSON has it.
  def plain(item)
    case item
    when Hash then item.transform_values { |part| plain(part) }
    when Array then item.map { |part| plain(part) }
    when String then item.encoding == Encoding::BINARY ? item.unpack1("H*") : item
    when Complex then item.rectangular
    when nil, true, false, Numeric then item
    else { shape: item.shape, elements: indices(item).map { |index| plain(get(item, index)) } }
    end
  end

  def make_channel(name, dtype, shape)
    CHANNEL.create(name, dtype, shape)
  end

  def make(dtype, shape, **options)
    Shmarray::Array.create(dtype, shape, **options)
  end

  def attached(text, readonly)
    Shmarray::Array.attach(text, readonly: readonly)
  end

  def facts(array)
    [array.dtype, array.shape, array.strides]
  end

  def get(array, index)
    array[*index]
  end

  def set(array, index, value)
    array[*index] = value
  end

  def to_bytes(array)
    array.to_bytes
  end

  def handle_text(array)
    array.handle
  end

  # Every index in C order.
  def indices(array)
    first, *rest = array.shape.map { |count| (0...count).to_a }
    first ? first.product(*rest) : [[]]
  end

  def fill_pattern(array, dtype, first = 0)
    indices(array).each.with_index(first) { |index, k| set(array, index, pattern(dtype, k)) }
  end

  def compare(array, dtype)
    indices(array).each_with_index do |index, k|
      found = get(array, index)
      return "bad #{k} #{found}" if found != pattern(dtype, k)
    end
    "ok #{array.size}"
  end

  def pattern(dtype, number)
    by_name = dtype.match?(/\A[a-z]/)
    bits = by_name ? dtype[/\d+/].to_i : dtype[2..].to_i * 8
    case dtype
    when "|b1" then (number % 3).zero?
    when /\A[<|]?i/ then wrap(7 * number + 3 - 20 + 2**(bits - 1), bits) - 2**(bits - 1)
    when /\A[<|]?u/ then wrap(7 * number + 3, bits)
    when /\Afloat/ then 1.0 + number % 2
    when /\A<f|bfloat/ then number / 2.0 - 3.25
    when /\A<?c|bcomplex/ then Complex(number / 2.0 - 3.25, 2.5 - number)
    else raise TypeError, "no elements of dtype #{dtype}"
    end
  end

  def wrap(number, bits)
    number % 2**bits
  end

  def list(numbers)
    numbers.empty? ? "-" : numbers.join(",")
  end
end

# Answers line by line until the input ends.
def serve(driver)
  $stdout.sync = true
  $stdin.each_line(chomp: true) { |line| puts driver.answer(line) }
end

serve(Driver.new) if $PROGRAM_NAME == __FILE__
