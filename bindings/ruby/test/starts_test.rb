# frozen_string_literal: true

require_relative "helper"
require "pty"

# Starts: a program holds nothing, and a handle goes through exec.
class StartsTest < SharedMemoryTest
  STARTS = {
    "spawn" => ->(ends) { spawn("cat", in: ends[0], out: ends[1]) },
    "spawn with every fd" =>
      ->(ends) { spawn("cat", in: ends[0], out: ends[1], close_others: false) },
    "spawn by a shell" => ->(ends) { spawn("cat; true", in: ends[0], out: ends[1]) },
    "spawn in a new group" => ->(ends) { spawn("cat", in: ends[0], out: ends[1], pgroup: true) },
    "fork and exec" => ->(ends) { fork { exec("cat", in: ends[0], out: ends[1]) } }
  }.freeze

  def test_a_started_program_holds_nothing_and_takes_nothing
    adopt_orphans
    STARTS.each do |name, start|
      (theirs_in, ours_out), (ours_in, theirs_out) = IO.pipe, IO.pipe
      pid = in_child { start_and_hold(start, [theirs_in, theirs_out], [ours_out, ours_in]) }
      [theirs_in, theirs_out].each(&:close)
      assert_empty segments_in, name # its starter has ended
      ours_out.write("still here")
      ours_out.close
      assert_equal "still here", ours_in.read, name # and it has not
      ours_in.close
      assert_predicate Process.wait2(pid)[1], :success?, name
    end
  end

  def test_programs_of_a_shell_or_terminal_take_nothing
    a = Shmarray::Array.create(:int32, 3)
    before = segments_in
    assert system("true")
    assert_equal "here\n", `echo here`
    PTY.spawn("echo here") { |output, _, pid| [output.gets, Process.wait(pid)] }
    assert_raises(Errno::ENOENT) { spawn("/there/is/no/such/program") }
    assert_raises(Errno::ENOENT) { exec("/there/is/no/such/program") }
    assert_equal [0, before], [Shmarray.sweep[:segments], segments_in]
    assert_equal [0, 0, 0], Shmarray::Array.attach(a.handle).to_a
  end

  def test_a_handle_goes_through_exec_while_somebody_holds_its_array
    paths = $LOAD_PATH.flat_map { |path| ["-I", path] }
    program = start_ruby(EXECS, RbConfig.ruby, "-W0", *paths, "-e", ATTACHES)
    in_child do
      a = Shmarray::Array.attach(program.gets.chomp)
      program.puts "go"
      assert_equal "attached\n", program.gets
      assert_equal [4, 0, 0], a.to_a
      nil
    end
    assert_equal 0, Shmarray.sweep[:segments]
    refute_empty segments_in # the new program holds what it attached
    program.puts "end"
    ended(program)
    assert_empty segments_in
  end

  EXECS = <<~RUBY
    require "shmarray"
    $stdout.sync = true
    a = Shmarray::Array.create(:int32, 3)
    puts a.handle
    STDIN.sysread(3)
    exec(*ARGV, *(a.handle if ARGV.size > 1))
  RUBY

  ATTACHES = <<~RUBY
    require "shmarray"
    $stdout.sync = true
    a = Shmarray::Array.attach(ARGV[0])
    a[0] = 4
    puts "attached"
    STDIN.gets
  RUBY

  private

  # An answer means that the program runs: then it has no part of this process's memory.
  def start_and_hold(start, theirs, ours)
    a = Shmarray::Array.create(:int32, 3)
    pid = start.call(theirs)
    ours[0].write("here")
    ours[0].flush
    raise "no answer" unless ours[1].readpartial(4) == "here" && a.to_a == [0, 0, 0]

    pid
  end

  def ended(program)
    program.close
    assert_predicate $?, :success?
  end
end
