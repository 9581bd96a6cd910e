# frozen_string_literal: true

require_relative "helper"

# Numo::Shared::Reference: arrays through a Marshal that does not know them.
class NumoReferenceTest < NumoTest
  def through_marshal(object)
    Marshal.load(Marshal.dump(object))
  end

  def reference(array)
    Numo::Shared::Reference.new(array)
  end

  def test_loading_gives_the_array
    whole = Numo::Shared.new(Numo::Int32, [2, 3])
    through_marshal({ "a" => [reference(whole)] })["a"][0][1, 2] = 7
    through_marshal(reference(whole[true, 1])).fill(5)
    assert_equal [[0, 5, 0], [0, 5, 7]], whole.to_a
  end

  def test_a_private_array_is_shared
    found = through_marshal(reference(Numo::DFloat[[1, 2], [3, 4]].transpose))
    assert_equal [Numo::DFloat, true, [[1.0, 3.0], [2.0, 4.0]]],
                 [found.class, Numo::Shared.shared?(found), found.to_a]
    assert_raises(TypeError) { reference(Numo::Bit[1]) }
  end

  def test_an_array_itself_is_dumped_as_bytes
    whole = Numo::Shared.share(Numo::Int8[1, 2])
    copy = through_marshal(whole)
    copy[0] = 9
    assert_equal [false, [1, 2]], [Numo::Shared.shared?(copy), whole.to_a]
  end

  def test_a_dumped_array_lives_until_it_is_loaded
    text = away { Marshal.dump(reference(Numo::Int8.new(100_000).fill(3))) }
    collect
    Numo::Shared.sweep
    assert_equal 3, away { Marshal.load(text)[-1] }
    collect
    assert_raises(Errno::ENOENT) { Marshal.load(text) }
  end

  def test_it_goes_to_another_process
    Numo::Shared.new(Numo::Int8, 1) # from here on what is forked is of one family
    text = IO.popen("-", "r+b") do |io|
      unless io # the child
        $stdout.binmode.write(Marshal.dump(reference(Numo::SFloat[1.5, 2.5])))
        exit!
      end
      io.read
    end
    assert_equal [1.5, 2.5], Marshal.load(text).to_a
  end
end
