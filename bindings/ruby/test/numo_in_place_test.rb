# frozen_string_literal: true

require_relative "helper"

# Everything that Numo does in place stays in the segment: it is the same on a shared array and on a
# private one, and then read through another attach.
class NumoInPlaceTest < NumoTest
  ALL = {
    "store number" => ->(a) { a.store(3) },
    "store array" => ->(a) { a.store([[1, 2, 3], [4, 5, 6], [7, 8, 9], [0, 1, 2]]) },
    "store narray" => ->(a) { a.store(Numo::Int16.new(4, 3).seq(2)) },
    "store bits" => ->(a) { a.store(Numo::Bit.ones(4, 3)) },
    "fill" => ->(a) { a.fill(4) },
    "seq" => ->(a) { a.seq(1, 2) },
    "eye" => ->(a) { a.eye },
    "[]= element" => ->(a) { a[1, 2] = 7 },
    "[]= flat" => ->(a) { a[5] = 7 },
    "[]= row" => ->(a) { a[1, true] = [7, 8, 9] },
    "[]= steps" => ->(a) { a[(0..-1) % 2, true] = 5 },
    "[]= index array" => ->(a) { a[[0, 3], true] = 6 },
    "[]= bits" => ->(a) { a[a.eq(0)] = 1 },
    "[]= all" => ->(a) { a[] = 1 },
    "view []=" => ->(a) { a[1..2, 0..1][1, 1] = 4 },
    "view store" => ->(a) { a.transpose.store(2) },
    "view seq" => ->(a) { a.reverse.seq },
    "view of view fill" => ->(a) { a[1..3, true].transpose[0, true].fill(8) },
    "diagonal store" => ->(a) { a.diagonal.store(9) },
    "flatten []=" => ->(a) { a.flatten[4] = 3 },
    "inplace +" => ->(a) { a.inplace + 1 },
    "inplace -" => ->(a) { a.inplace - 1 },
    "inplace *" => ->(a) { a.inplace * 2 },
    "inplace /" => ->(a) { a.inplace / 2 },
    "inplace -@" => ->(a) { -a.inplace },
    "inplace square" => ->(a) { a.inplace.square },
    "inplace view" => ->(a) { a[1, true].inplace + 5 },
    "inplace! +" => ->(a) { (a.inplace! + 1).out_of_place! },
    "inplace map" => ->(a) { a.inplace.map { |x| x + 1 } },
    "inplace swap twice" => ->(a) { a.inplace.swap_byte.inplace.swap_byte },
    "reshape!" => ->(a) { a.reshape!(3, 4).seq },
    "tril!" => ->(a) { a.tril! },
    "triu!" => ->(a) { a.triu! },
    "store_binary" => ->(a) { a.store_binary("\1" * a.byte_size) },
    "store_binary frozen" => ->(a) { a.store_binary(("\2" * a.byte_size).freeze) },
    "store_binary offset" => ->(a) { a.store_binary("xx#{"\3" * a.byte_size}", 2) },
    # Numo would take a frozen string for the memory of the whole array.
    "store_binary of a row" => ->(a) { a[0, true].store_binary("\4" * (a.byte_size / 4)) },
    "allocate" => ->(a) { a.allocate },
    "free" => ->(a) { a[0, true].free },
    "concatenate back" => ->(a) { a.store(a[0..1, true].concatenate(a[2..3, true])) },
    "swap rows" => ->(a) { a[0, true], a[1, true] = a[1, true].dup, a[0, true].dup },
    "coerce" => ->(a) { a.store(2 * a) }
  }.freeze

  ORDERED = {
    "sort inplace" => ->(a) { a.inplace.sort },
    "sort! axis" => ->(a) { a.inplace.sort(0) },
    "cumsum inplace" => ->(a) { a.inplace.cumsum(0) },
    "clip inplace" => ->(a) { a.inplace.clip(1, 3) },
    "rand" => ->(a) { Numo::NArray.srand(7); a.rand(10) }
  }.freeze

  WHOLE = {
    "inplace %" => ->(a) { a.inplace % 3 },
    "inplace &" => ->(a) { a.inplace & 6 },
    "inplace |" => ->(a) { a.inplace | 1 },
    "inplace ^" => ->(a) { a.inplace ^ 5 },
    "inplace ~" => ->(a) { ~a.inplace },
    "inplace <<" => ->(a) { a.inplace << 1 }
  }.freeze

  REAL = {
    "inplace **" => ->(a) { a.inplace**2 },
    "inplace floor" => ->(a) { (a.inplace / 3).inplace.floor },
    "rand_norm" => ->(a) { Numo::NArray.srand(7); a.rand_norm },
    "inplace sqrt" => ->(a) { Numo::NMath.sqrt(a.inplace) }
  }.freeze

  # Numo refuses reshape! for any strided view, and draws other numbers for one in rand_norm.
  ONLY_OWN = %w[reshape! rand_norm].freeze

  def operations(type)
    name = type.name.split("::").last.to_sym
    found = ALL
    found = found.merge(ORDERED) unless COMPLEXES.include?(name)
    found = found.merge(WHOLE) if INTEGERS.include?(name)
    found = found.merge(REAL) if FLOATS.include?(name)
    found
  end

  # An array whose elements lie side by side, and one of every other row with its columns reversed.
  def shared_kinds(type)
    big = Numo::Shared.new(type, [8, 3])
    { "own" => Numo::Shared.new(type, [4, 3]),
      "strided" => Numo::Shared.attach(Numo::Shared.handle(big[(0..-1) % 2, true].reverse(1))) }
  end

  def test_everything_in_place_stays_shared
    done = 0
    CLASSES.each do |type|
      operations(type).each do |name, operation|
        shared_kinds(type).each do |kind, shared|
          next if kind == "strided" && ONLY_OWN.include?(name)

          compare(type, "#{kind} #{type} #{name}", shared, operation)
          done += 1
        end
      end
    end
    assert_operator done, :>, 900
  end

  def compare(type, what, shared, operation)
    handle = Numo::Shared.handle(shared)
    pattern = [[3, 0, 2], [7, 1, 0], [5, 5, 4], [0, 9, 6]]
    expected = type.cast(pattern)
    shared.store(expected)
    operation.call(expected)
    operation.call(shared)
    assert Numo::Shared.shared?(shared), what
    assert_equal expected.dup.to_binary.b, Shmarray::Array.attach(handle).to_bytes, what
  end

  def test_another_process_sees_each_of_them
    a = Numo::Shared.new(Numo::Int32, [4, 3])
    reader, writer = IO.pipe
    done, more = IO.pipe
    watcher = fork do
      [reader, more].each(&:close)
      b = Numo::Shared.attach(Numo::Shared.handle(a))
      while done.gets
        writer.puts b.to_a.inspect
      end
    end
    [writer, done].each(&:close)
    seen = operations(Numo::Int32).except("reshape!").map do |name, operation|
      operation.call(a.store([[3, 0, 2], [7, 1, 0], [5, 5, 4], [0, 9, 6]]))
      more.puts name
      assert_equal a.to_a.inspect, reader.gets.chomp, name
    end
    more.close
    Process.wait(watcher)
    assert_operator seen.size, :>, 40
  end

  def test_methods_that_would_replace_the_memory_are_refused_or_keep_it
    a = Numo::Shared.new(Numo::Int32, [2, 3]).seq
    strided = Numo::Shared.attach(Numo::Shared.handle(a.transpose))
    [a, a.view, strided].each do |array|
      before = array.to_a
      assert_same array, array.free
      assert_raises(TypeError) { array.send(:initialize, 100) }
      assert_raises(TypeError) { array.send(:initialize_copy, Numo::Int32.zeros(100)) }
      assert_raises(TypeError) { array.marshal_load(Numo::Int32.zeros(100).marshal_dump) }
      assert_raises(ArgumentError) { array.store_binary("short") }
      assert_raises(TypeError) { array.store_binary(nil) }
      assert_raises(ArgumentError) { array.store_binary("\0" * 24, 1) }
      assert_raises(ArgumentError) { array.store_binary("\0" * 24, 99) }
      assert_equal before, array.to_a
    end
    assert_equal 24, a.store_binary((1..6).to_a.pack("l<*").freeze)
    assert_equal [[1, 4], [2, 5], [3, 6]], strided.to_a
    plain = Numo::Int32.zeros(3)
    plain.store_binary([1, 2, 3].pack("l<*").freeze)
    assert_equal [1, 2, 3], plain.to_a
    assert_equal [4, 5], Marshal.load(Marshal.dump(Numo::Int32[4, 5])).to_a
  end
end
