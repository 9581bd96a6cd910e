# frozen_string_literal: true

require_relative "helper"

# Arrays in several Ractors.
class RactorTest < SharedMemoryTest
  def setup
    Warning[:experimental] = false # Ruby says so of Ractors
  end

  def test_a_frozen_array_is_everybodys
    a = Shmarray::Array.create(:int32, [2, 2])
    a[true, 1] = 7
    fixed = Shmarray::Array.attach(a.handle, readonly: true).freeze
    assert Ractor.shareable?(fixed)
    refute Ractor.shareable?(a)
    ractors = Array.new(3) do |n|
      Ractor.new(fixed, n) { |array, m| array.to_a.flatten.sum + array[0, 1] * m }
    end
    assert_equal [14, 21, 28], ractors.map(&:take)
  end

  def test_a_ractor_attaches_and_makes_arrays
    a = Shmarray::Array.create(:float64, 3)
    made = Ractor.new(a.handle) do |handle|
      Shmarray::Array.attach(handle)[1] = 2.5
      Shmarray::Array.create(:int8, 2).tap { |array| array[0] = 1 }.freeze
    end.take
    assert_equal [[0.0, 2.5, 0.0], [1, 0]], [a.to_a, made.to_a]
  end

  def test_numo_arrays
    skip "no Numo gem is installed" unless NUMO
    whole = Numo::Shared.share(Numo::Int8[1, 2])
    fixed = Numo::Shared.attach(Numo::Shared.handle(whole), readonly: true)
    assert Ractor.shareable?(fixed)
    same, tenfold = Ractor.new(fixed) { |array| [array, array * 10] }.take
    assert_same fixed, same
    assert_equal [10, 20], tenfold.to_a
    Ractor.new(Numo::Shared.handle(whole)) { |handle| Numo::Shared.attach(handle)[1] = 7 }.take
    assert_equal [1, 7], fixed.to_a
  end
end
