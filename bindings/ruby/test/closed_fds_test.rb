# frozen_string_literal: true

require_relative "helper"

# Every fd is closed behind the library's back: holds stay, and everything goes on working.
class ClosedFdsTest < SharedMemoryTest
  # The fd of Ruby's own timer cannot be had as an IO.
  PRELUDE = <<~'RUBY'
    begin
      require "numo/shared"
    rescue LoadError
      require "shmarray"
    end
    $stdout.sync = true

    def close_all
      Dir.children("/proc/self/fd").map(&:to_i).select { |number| number > 2 }.each do |number|
        IO.for_fd(number).close
      rescue Errno::EBADF, ArgumentError
        nil
      end
    end

    def hold
      $array = Shmarray::Array.create(:int64, [3, 4])
      $array[nil] = (0...12).each_slice(4).to_a
      $named = Shmarray::Array.create(:int64, 5, name: "named")
      $reader = Shmarray::Array.attach("named", readonly: true)
      $view = $array[1..2, (0..) % 2]
      $numo = Numo::Shared.attach($array.handle) if defined?(Numo::Shared)
    end

    def same(expected, found)
      raise "#{found} is not #{expected}" unless found == expected
    end

    # All that a program does with the library.
    def everything
      $array[1, 2] += 30
      same(36, $view[0, 1])
      same(36, Shmarray::Array.attach($view.handle)[0, 1])
      same(36, $numo[1, 2]) if $numo
      $array[1, 2] -= 30
      $named[4] = 9
      same([9, 9], [$reader[4], Shmarray::Array.attach("named")[4]])
      made = Array.new(20) do |number|
        Shmarray::Array.create(:int32, 10).tap { |array| array[7] = number }
      end
      same((0...20).to_a, made.map { |array| Shmarray::Array.attach(array.handle)[7] })
      same([1, 2, 3], Numo::Shared.share(Numo::Int32[1, 2, 3]).to_a) if $numo
      # The last holder removes its name.
      second = Shmarray::Array.create(:int8, 1, name: "second")
      Shmarray.unlink("second")
      second.close
      Shmarray.sweep
      same(true, Shmarray.segments.any? { |info| info[:name] == "named" })
      GC.start
    end
  RUBY

  def test_arrays_work_and_more_are_made_with_every_fd_closed
    output, status = ruby(<<~RUBY)
      #{PRELUDE}
      hold
      3.times { close_all; everything }
      puts $array.to_a.inspect
    RUBY
    assert_equal ["[[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]\n", true], [output, status.success?]
    assert_empty segments_in
  end

  def test_the_first_use_may_come_after_every_fd_was_closed
    output, status = ruby(PRELUDE + "close_all\nhold\neverything\nputs $view.to_a.inspect")
    assert_equal ["[[4, 6], [8, 10]]\n", true], [output, status.success?]
  end

  def test_others_cannot_take_what_a_process_without_fds_holds
    ENDINGS.each_key do |ending|
      program = start_ruby(PRELUDE + HOLDS, ending)
      handle = program.gets.chomp
      before = segments_in
      3.times do
        # Attached, and released with its process.
        in_child { Shmarray::Array.attach(handle)[1, 1] += 1 }
        assert_equal 0, Shmarray.sweep[:segments]
      end
      assert_equal before, segments_in
      program.puts "look"
      assert_equal "[[4, 6], [8, 13]]\n", program.gets
      program.puts "end"
      program.close
      assert_nothing_left ending
    end
  end

  HOLDS = <<~'RUBY'
    hold
    close_all
    puts $view.handle
    $stdin.gets
    puts $view.to_a.inspect
    everything
    $stdin.gets
    { "exit" => -> { exit }, "exit!" => -> { exit!(0) },
      "killed" => -> { Process.kill(:KILL, $$) } }[ARGV[0]].call
  RUBY

  def test_forks_of_a_process_without_fds_hold_and_give_back
    output, status = ruby(PRELUDE + FORKS)
    assert_equal ["0\n0\n9\n3\n", true], [output, status.success?]
    assert_empty segments_in
  end

  FORKS = <<~'RUBY'
    hold
    close_all
    [-> { exit }, -> { exit!(0) }, -> { Process.kill(:KILL, $$) }].each do |ending|
      pid = fork do
        close_all
        everything
        $array[0, 0] += 1
        ending.call
      end
      puts Process.wait2(pid)[1].to_i
      Shmarray.sweep
    end
    puts $array[0, 0]
  RUBY

  def test_a_child_without_fds_outlives_its_parent
    program = start_ruby(PRELUDE + PARENT_FIRST)
    parent, handle = program.gets.split(" ", 2)
    assert_equal parent.to_i, program.pid
    assert_equal "the parent is gone\n", program.gets
    before = segments_in
    refute_empty before
    assert_equal [0, before], [Shmarray.sweep[:segments], segments_in]
    in_child { Shmarray::Array.attach(handle.chomp)[1, 1] = 50 }
    program.puts "look"
    assert_equal "[[4, 6], [8, 50]]\n", program.gets
    assert_nil program.gets # it has ended, or is about to
    program.close
  end

  PARENT_FIRST = <<~'RUBY'
    hold
    parent = $$
    puts "#{parent} #{$view.handle}"
    exit!(0) if fork
    close_all
    Thread.pass while Process.ppid == parent
    puts "the parent is gone"
    $stdin.gets
    everything
    puts $view.to_a.inspect
  RUBY
end
