# frozen_string_literal: true

require_relative "helper"
require "timeout"

# Pipes that carry arrays: the fate of messages when processes end.
class MessageTest < SharedMemoryTest
  # One array in a cell, and one in a segment of its own.
  SIZES = [8, 100_000].freeze

  def setup
    @here, @there = Shmarray::Pipe.pair
  end

  def marked(size, mark)
    Shmarray::Array.create(:uint8, size).tap { |a| a[0] = mark }
  end

  # Starts a child that has only the given ends of this test's pipes: it ends when the block does.
  def child(&block)
    Process.wait2(fork { exit!(block.call ? 0 : 1) })[1]
  end

  def test_a_message_arrives_with_its_bytes_and_arrays
    a = Shmarray::Array.create(:int32, [2, 3])
    a[nil] = [[1, 2, 3], [4, 5, 6]]
    assert_same @here, @here.send_arrays("frame 1", [a, a[true, 1], marked(SIZES[1], 7)])
    message = @there.receive
    assert_equal ["frame 1", Encoding::BINARY, 3],
                 [message.payload, message.payload.encoding, message.size]
    whole, column, large = Array.new(3) { |index| message.array(index) }
    assert_equal [7, [SIZES[1]]], [message.array(-1)[0], large.shape]
    message.close
    assert_equal [[[1, 2, 3], [4, 5, 6]], [2, 5]], [whole.to_a, column.to_a]
    column[0] = 9
    assert_equal 9, a[0, 1]
  end

  UNREAD = <<~RUBY
    require "shmarray"
    here, there = Shmarray::Pipe.pair
    here.send_arrays("x", [8, 100_000].map { |size| Shmarray::Array.create(:uint8, size) })
  RUBY

  def test_a_program_that_ends_with_an_unread_message_leaves_no_memory
    assert_empty ruby_says(UNREAD)
    assert_empty segments_in
  end

  def test_a_received_array_may_be_readonly
    a = marked(3, 1)
    @here.send_arrays("", [a])
    b = @there.receive.array(0, readonly: true)
    assert_predicate b, :readonly?
    assert_raises(FrozenError) { b[0] = 2 }
    a[0] = 3
    assert_equal 3, b[0]
  end

  def test_payloads_of_every_size_arrive_whole
    [0, 1, 1000, 32_000, 33_000, 5_000_000].each do |size|
      payload = Random.bytes(size)
      @here.send_arrays(payload)
      assert @there.receive.payload == payload, size
    end
  end

  def test_a_block_gets_the_message_which_ends_with_it
    away { @here.send_arrays("x", [marked(SIZES[1], 1), marked(SIZES[1], 2)]) }
    collect
    kept = nil
    second = @there.receive do |message|
      kept = message
      message.array(1)
    end
    assert_equal [2, true], [second[0], kept.closed?]
    assert_equal 1, segments_in.size
    [-> { kept.payload }, -> { kept.size }, -> { kept.array(0) }].each do |use|
      assert_raises(IOError, &use)
    end
    assert_match(/closed/, kept.inspect)
    assert_nil kept.close
  end

  def test_an_invalid_send_is_refused
    assert_raises(TypeError) { @here.send_arrays(5) }
    assert_raises(TypeError) { @here.send_arrays("", 5) }
    assert_refused(TypeError, /not an array in shared memory/) { @here.send_arrays("", [[1]]) }
    assert_raises(TypeError) { @here.send_arrays("", [], timeout: "soon") }
    assert_raises(Shmarray::TimeoutError) { @there.receive(timeout: 0) }
  end

  def test_an_array_that_a_message_has_not_is_an_index_error
    @here.send_arrays("", [marked(3, 1)])
    message = @there.receive
    [1, -2, 1 << 40].each do |index|
      assert_raises(IndexError) { message.array(index) }
    end
    assert_equal 1, message.array(-1)[0]
  end

  def test_an_empty_pipe_and_a_full_one_time_out
    [0, 0.001, -5, 1r / 1000].each do |time|
      assert_raises(Shmarray::TimeoutError) { @there.receive(timeout: time) }
    end
    a = marked(SIZES[1], 3)
    sent = 0
    error = assert_raises(Shmarray::TimeoutError) do
      loop { @here.send_arrays("", [a], timeout: 0.001) && sent += 1 }
    end
    assert_equal "the pipe had no room in that time: 0.001 s", error.message
    assert_operator sent, :>, 50
    sent.times do
      assert_equal 3, @there.receive(timeout: Float::INFINITY) { |message| message.array(0)[0] }
    end
  end

  def test_a_timeout_is_rubys_own_where_it_has_one
    expected = defined?(IO::TimeoutError) ? IO::TimeoutError : Shmarray::Error
    assert_operator Shmarray::TimeoutError, :<=, expected
  end

  def test_closed_ends_are_told
    a = marked(SIZES[1], 3)
    @there.send_arrays("last", [a])
    @there.close
    assert_raises(Errno::EPIPE) { @here.send_arrays("x", [a]) }
    assert_equal "last", @here.receive(&:payload)
    assert_raises(EOFError) { @here.receive }
    assert_predicate @there, :closed?
    [-> { @there.receive }, -> { @there.send_arrays("") }, -> { @there.fileno },
     -> { @there.to_io }].each do |use|
      assert_raises(IOError, &use)
    end
    assert_nil @there.close
    assert_equal [0, [Process.pid]], listed_arrays[0].values_at(:tickets, :holders)
  end

  def test_a_message_holds_though_its_sender_has_ended
    SIZES.each do |size|
      assert_predicate child { @there.send_arrays("", [marked(size, 7)]) }, :success?
      assert_equal [0, 1],
                   [Shmarray.sweep[:segments], listed_arrays.sum { |facts| facts[:tickets] }]
      a = @here.receive { |message| message.array(0) }
      assert_equal [0, 7], [Shmarray.sweep[:segments], a[0]]
    end
  end

  def test_a_killed_worker_leaves_nothing
    SIZES.each do |size|
      2.times { |mark| @here.send_arrays("", [marked(size, mark)]) }
      status = child do
        kept = @there.receive
        @there.send_arrays("", [kept.array(0)])
        Process.kill(:KILL, Process.pid)
      end
      assert_equal 9, status.termsig
      assert_equal 0, @here.receive { |message| message.array(0)[0] } # its answer
      assert_equal 1, @there.receive { |message| message.array(0)[0] } # which it did not take
    end
    collect
    Shmarray.sweep
    assert_empty segments_in
  end

  def test_unreceivable_messages_are_given_back
    away { SIZES.each { |size| @here.send_arrays("", [marked(size, 1)]) } }
    collect
    @here.close
    assert_equal 0, Shmarray.sweep[:segments]
    @there.close
    assert_equal 2, Shmarray.sweep[:segments]
  end

  def test_a_forked_child_answers_again_and_again
    pid = fork do
      @here.close
      loop do
        @there.receive do |message|
          array = message.array(0).tap { |a| a[1] = 5 }
          @there.send_arrays(message.payload.upcase, [array])
        end
      end
    rescue EOFError
      exit!(0)
    end
    @there.close
    20.times do |time|
      a = marked(8, time)
      assert_equal "TWICE", @here.send_arrays("twice", [a]).receive(&:payload)
      assert_equal [time, 5], [a[0], a[1]]
    end
    @here.close
    assert_predicate Process.wait2(pid)[1], :success?
  end

  def test_an_end_passes_to_another_program_by_its_fd
    script = <<~RUBY
      require "shmarray"
      pipe = Shmarray::Pipe.from_fd(Integer(ARGV[0]))
      pipe.receive { |message| pipe.send_arrays(message.payload, [message.array(0)]) }
    RUBY
    paths = $LOAD_PATH.flat_map { |path| ["-I", path] }
    fd = @there.fileno
    pid = spawn(RbConfig.ruby, *paths, "-e", script, fd.to_s, fd => fd)
    @there.close
    @here.send_arrays("x", [marked(3, 4)])
    assert_equal 4, @here.receive { |message| message.array(0)[0] }
    assert_predicate Process.wait2(pid)[1], :success?
    assert_raises(EOFError) { @here.receive }
  end

  def test_an_fd_that_is_not_a_pipe_is_refused_and_stays_open
    reader, writer = IO.pipe
    assert_refused(ArgumentError, /not an end of a pipe/) { Shmarray::Pipe.from_fd(reader.fileno) }
    writer.puts "open"
    assert_equal "open\n", reader.gets
    number = reader.fileno
    [reader, writer].each(&:close)
    assert_raises(Errno::EBADF) { Shmarray::Pipe.from_fd(number) }
    assert_raises(ArgumentError) { Shmarray::Pipe.from_fd(-1) }
    assert_raises(NoMethodError, TypeError) { Shmarray::Pipe.new }
  end

  def test_other_threads_run_while_one_waits
    answers = Thread.new { ::Array.new(100) { @there.receive { |message| message.array(0)[0] } } }
    100.times { |mark| @here.send_arrays("", [marked(8, mark)]) }
    assert_equal (0...100).to_a, answers.value
  end

  def test_io_select_knows_a_pipe
    assert_nil IO.select([@there], nil, nil, 0)
    @here.send_arrays("x")
    assert_equal [[@there], [], []], IO.select([@there], nil, nil, nil)
    assert_equal "x", @there.receive(timeout: 0, &:payload)
  end

  def test_every_way_to_end_a_threads_wait_ends_receive
    waiting = lambda do |&ending|
      thread = Thread.new { @there.receive }
      thread.report_on_exception = false
      Thread.pass until thread.stop?
      ending.call(thread)
      thread
    end
    assert_nil waiting.call(&:kill).value
    assert_raises(ZeroDivisionError) do
      waiting.call { |thread| thread.raise(ZeroDivisionError) }.value
    end
    assert_raises(Timeout::Error) { Timeout.timeout(0.001) { @there.receive } }
    assert_raises(IOError) { waiting.call { @there.close }.value }
  end

  def test_ctrl_c_ends_a_wait
    reader, writer = IO.pipe
    pid = fork do
      trap(:INT, "DEFAULT") # also where a shell had it ignored
      writer.puts "waiting"
      @there.receive
    rescue Interrupt
      exit!(7)
    end
    reader.gets
    Process.kill(:INT, pid)
    assert_equal 7, Process.wait2(pid)[1].exitstatus
  end

  def test_a_handle_to_send_holds_until_it_is_attached_or_discarded
    SIZES.each do |size|
      first, second = away do
        marked(size, 4).then { |a| [a.handle_to_send, a[0..1].handle_to_send] }
      end
      collect
      assert_equal 0, Shmarray.sweep[:segments]
      assert_equal [4, 0], in_child { Shmarray::Array.attach(second).to_a }
      assert_equal 1, segments_in.size
      2.times { Shmarray.discard(first) }
      assert_empty segments_in
      assert_raises(Errno::ENOENT) { Shmarray::Array.attach(first) }
    end
    assert_raises(ArgumentError) { Shmarray.discard("a name") }
    assert_raises(TypeError) { Shmarray.discard(5) }
  end

  def test_segments_say_who_holds
    a = Shmarray::Array.create(:int8, 3, name: "kept", persist: true)
    @here.send_arrays("", [a])
    assert_equal [[Process.pid], 1, true],
                 Shmarray.segments[0].values_at(:holders, :tickets, :persists)
    Shmarray.unlink("kept")
    # A ticket that nobody receives is given back by a sweep once its pipe has gone. At the exit
    # the array may be finalized before the pipe, and nobody sweeps after that.
    [@here, @there].each(&:close)
    Shmarray.sweep
  end
end
