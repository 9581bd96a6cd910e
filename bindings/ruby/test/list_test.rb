# frozen_string_literal: true

require_relative "helper"
require_relative "list_helper"
require "pathname"

# Lists: what goes in comes out, in any process.
class ListTest < SharedMemoryTest
  include ListHelper

  ROUND_TRIPS = {
    numbers: [[1, -2, 2**63 - 1, nil, -2**63], [nil, nil, 0.5, -1.0], [true, nil, false],
              [Complex(1, -2), nil]],
    strings: [["", "naïve", nil, "text"], ["1", 1.to_s]],
    bytes: [["\x00\xFF".b, "".b, nil]],
    records: [[{ a: 1, b: "x" }, nil, { a: nil, b: "y" }, { b: nil, a: 3 }],
              [{ a: { b: [1.5, nil] } }, { a: nil }, { a: { b: nil } }],
              [{ "no name, but «UTF-8»": nil }], [{}, nil, {}]],
    lists: [[[], [1, nil], nil, [2, 3]], [[[["a"], []]], nil, [[["b", nil]], nil]],
            [[nil, nil], []], [[{ a: 1 }], [], [{ a: 2 }, nil]]],
    nothing: [[], [nil, nil]]
  }.freeze

  def test_what_goes_in_comes_out
    ROUND_TRIPS.each do |kind, cases|
      cases.each do |items|
        list = Shmarray::List.new(items)
        assert_equal [kind, items.size, items], [list.kind, list.size, list.to_a], items.inspect
        assert_equal items, Shmarray::List.attach(list.handle).to_a
      end
    end
  end

  def test_another_process_attaches_by_handle_and_by_name
    items = ROUND_TRIPS[:records].first
    list = Shmarray::List.new(items, name: "records")
    script = <<~RUBY
      require "shmarray"
      ARGV.each { |text| p Shmarray::List.attach(text).to_a }
    RUBY
    assert_equal [list.to_a.inspect] * 2,
                 ruby_says(script, list.handle, "records").lines(chomp: true)
    assert_equal items, in_child { Shmarray::List.attach("records").to_a }
  end

  def test_a_name_stays_as_long_as_it_was_asked_to
    away { Shmarray::List.new([1], name: "gone") && nil }
    away { Shmarray::List.new([2], name: "there", persist: true, mode: 0o640) && nil }
    collect
    assert_raises(Errno::ENOENT) { Shmarray::List.attach("gone") }
    assert_equal [2], Shmarray::List.attach("there").to_a
    assert_raises(Errno::EEXIST) { Shmarray::List.new([3], name: "there") }
    Shmarray.unlink("there")
  end

  def test_any_enumerable_is_read_once
    reads = 0
    source = Enumerator.new { |y| 3.times { |i| y << (reads += 1) * i } }
    assert_equal [0, 2, 6], Shmarray::List.new(source).to_a
    assert_equal 3, reads
    assert_equal [0, 1, 4], Shmarray::List.new((0..).lazy.map { |i| i * i }.first(3)).to_a
    assert_equal [1, 3], Shmarray::List.new((1..4).lazy.select(&:odd?)).to_a
    assert_equal [[1, 2], [3, 4]], Shmarray::List.new({ 1 => 2, 3 => 4 }).to_a
    assert_equal [5], Shmarray::List.new(Object.new.tap { |o| def o.each = yield(5) }).to_a
    assert_equal [1, nil], Shmarray::List.new(Shmarray::List.new([1, nil])).to_a
  end

  def test_keys_may_be_strings_and_come_in_any_order
    list = Shmarray::List.new([{ "a" => 1, b: 2 }, { b: 3, a: 4 }])
    assert_equal [{ a: 1, b: 2 }, { a: 4, b: 3 }], list.to_a
    assert_equal %i[a b], list.fields
  end

  def test_indexes_are_those_of_an_array
    items = %w[a b c d e]
    list = Shmarray::List.new(items)
    indexes = (-7..7).to_a + [nil..2, 1.., 1..-2, 5.., 6.., 3..1, -9..2, -2.., 1...3, 4.., 0...0] +
              [(0..) % 2, (1..) % 3, ((..-2) % 2), (-1..0) % -1, (3..1).step(-1), (4..) % 9] + [1.9]
    indexes.each do |index|
      expected = outcome { items[index] }
      assert_equal expected, outcome { plain(list[index]) }, index.inspect
    end
    (-7..7).to_a.product((-1..7).to_a).each do |start, length|
      assert_equal items[start, length], list[start, length]&.to_a, [start, length].inspect
    end
    assert_raises(TypeError) { list[nil] }
    assert_raises(TypeError) { list["x"] }
    assert_raises(ArgumentError) { list[] }
    assert_raises(RangeError) { list[2**70] }
  end

  def plain(selected)
    selected.is_a?(Shmarray::List) ? selected.to_a : selected
  end

  def outcome
    yield
  rescue StandardError => error
    error.class
  end

  def test_parts_have_parts_and_fields
    list = Shmarray::List.new((0...10).map { |i| { n: i, s: i.to_s } })
    part = list[(1..) % 2]
    assert_equal [1, 3, 5, 7, 9], part.field(:n).to_a
    assert_equal %w[5 3], part[1..2].field("s")[(-1..0) % -1].to_a
    assert_equal [3, 5], part.field(:n)[1..2].values.to_a
    assert_equal [9, 7, 5, 3, 1], part.field(:n)[(-1..0) % -1].values.to_a
    assert_equal({ n: 7, s: "7" }, part[-2])
    assert_equal [], part[5..].field(:n).values.to_a
    assert_nil part[6..]
  end

  def test_values_and_offsets_say_where_the_items_are
    strings = Shmarray::List.new(["ab", nil, "", "cde"])
    assert_equal ["abcde", [0, 2, 2, 2, 5]], [strings.values.to_bytes, strings.offsets.to_a]
    assert_equal [2, 2, 2], strings[1..2].offsets.to_a
    assert_equal ["<i8", true], [strings.offsets.dtype, strings.offsets.readonly?]
    lists = Shmarray::List.new([[1, 2], nil, [3]])
    assert_equal [[1, 2, 3], [0, 2, 2, 3]], [lists.values.to_a, lists.offsets.to_a]
    numbers = Shmarray::List.new([1, nil, 3])
    assert_equal [1, 3], numbers.values.to_a.values_at(0, 2)
    same = Shmarray::List.new([[1, 2], [3, 4]].map { |row| array(:int16, row) })
    assert_equal [[1, 2, 3, 4], [0, 2, 4], [2, 4]],
                 [same.values.to_a, same.offsets.to_a, same[1..].offsets.to_a]
    assert_raises(ArgumentError) { numbers.offsets }
    assert_raises(ArgumentError) { strings[(0..) % 2].offsets }
    assert_raises(ArgumentError) { Shmarray::List.new([{ a: 1 }]).values }
    assert_raises(ArgumentError) { Shmarray::List.new([]).values }
  end

  def array(dtype, rows)
    Shmarray::Array.create(dtype, *shape_of(rows)).tap { |made| made[nil] = rows }
  end

  def shape_of(rows)
    rows.is_a?(Array) ? [rows.size, *(shape_of(rows.first) if rows.first.is_a?(Array))] : []
  end

  def test_arrays_are_views_of_the_list
    arrays = [array(:float32, [[1, 2], [3, 4]]), nil, array(:float32, [[5, 6, 7]]).transpose]
    list = Shmarray::List.new(arrays)
    before = Shmarray.copied_bytes
    found = list.to_a
    assert_equal before, Shmarray.copied_bytes
    assert_equal [[[1, 2], [3, 4]], [[5], [6], [7]]], found.compact.map(&:to_a)
    assert_equal ["<f4", [true, true]], [list.dtype, [found[0].readonly?, found[0].frozen?]]
    assert_raises(FrozenError) { found[0][0, 0] = 1 }
    segment = ->(handle) { JSON.parse(handle)["segment"] }
    assert_equal segment[list.handle], segment[found[0].handle]
  end

  def test_an_item_outlives_its_list
    item = away { Shmarray::List.new([array(:int8, [1, 2]), array(:int8, [3])])[0] }
    collect
    assert_equal [1, 2], item.to_a
  end

  def test_every_dtype_passes
    Shmarray::DTYPES.each do |dtype|
      one = Shmarray::Array.create(dtype, 3)
      one[1] = dtype == "int1" ? -1 : 1
      list = Shmarray::List.new([one, Shmarray::Array.create(dtype, 0)])
      assert_equal [one, 0, one.dtype], [list[0], list[1].size, list[0].dtype]
    end
  end

  def test_items_are_frozen
    list = Shmarray::List.new([{ s: "a", b: "b".b, l: ["c"] }])
    item = list[0]
    assert [item, *item.values, item[:l][0]].all?(&:frozen?)
    assert_equal [Encoding::UTF_8, Encoding::BINARY], [item[:s].encoding, item[:b].encoding]
    assert list.frozen? && list.field(:s).frozen?
    assert_same list, list.dup
    assert_same list, list.clone
    assert_raises(TypeError) { Shmarray::List.allocate }
  end

  def test_it_is_a_collection
    list = Shmarray::List.new([3, 1, 2])
    assert_equal [6, [1, 2, 3], 3, true], [list.sum, list.sort, list.max, list.include?(2)]
    assert_equal [[3, 0], [1, 1], [2, 2]], list.each.with_index.to_a
    assert_equal [3, 3], [list.each.size, list.length]
    assert_equal [2, [1, 2], [], 3], [list.last, list.last(2).to_a, list.last(0).to_a, list.first]
    assert_raises(ArgumentError) { list.last(-1) }
    assert_equal [2, :none, 7], [list.fetch(-1), list.fetch(3, :none), list.fetch(7) { |i| i }]
    assert_refused(IndexError, /index -4 outside of list bounds: -3...3/) { list.fetch(-4) }
    assert_equal [false, true], [list.empty?, list[3..].empty?]
  end

  def test_lists_are_equal_by_their_items
    list = Shmarray::List.new([{ a: 1 }, nil])
    assert_equal list, Shmarray::List.new([{ a: 1.0 }, nil])
    assert_equal list.field(:a), Shmarray::List.new([1, nil])
    [[{ a: 1 }], [{ a: 2 }, nil], [{ b: 1 }, nil]].each do |items|
      refute_equal list, Shmarray::List.new(items)
    end
    refute_equal list, list.to_a
  end

  def test_it_says_what_it_is
    { [1, nil, 2] => "3 numbers <i8 [1, nil, 2]", [{ a: 1, b: 2 }] => "1 records a, b",
      ["x"] * 20 => "20 strings …", [[1]] => "1 lists", [] => "0 nothing" }.each do |items, facts|
      assert_equal ["#<Shmarray::List #{facts}>"] * 2,
                   [Shmarray::List.new(items).inspect, Shmarray::List.new(items).to_s]
    end
    list = Shmarray::List.new([{ a: 1 }])
    assert_refused(KeyError, /no field :b in .*List 1 records a/) { list.field(:b) }
    assert_refused(KeyError, /no field/) { list.field(:a).field(:a) }
    assert_raises(TypeError) { list.field(0) }
    assert_equal list.nbytes, list.field(:a).nbytes
    assert_operator list.nbytes, :>, 64
  end

  def test_marshal_carries_it_by_its_handle
    list = Shmarray::List.new([{ a: 1 }, { a: 2 }, { a: 3 }])
    copy = Marshal.load(Marshal.dump("x" => list))["x"]
    assert_equal [list, list.handle], [copy, copy.handle]
    [list[1..], list.field(:a), list.field(:a)[(-1..0) % -2], list[3..]].each do |part|
      assert_equal part.to_a, Marshal.load(Marshal.dump(part)).to_a
      assert_refused(ArgumentError, /the list has/) { part.handle }
    end
  end

  def test_a_dump_holds_the_list_until_it_is_loaded
    text = away { Marshal.dump(Shmarray::List.new([1, 2])) }
    collect
    Shmarray.sweep
    assert_equal [1, 2], away { Marshal.load(text).to_a }
    collect
    assert_raises(Errno::ENOENT) { Marshal.load(text) }
  end

  def test_a_dumped_place_is_checked
    list = Shmarray::List.new([1, 2, 3])
    ["1 0 1 1", "0 0 1 4", "0 3 1 1", "0 2 2 2", "0 0 -1 2", "0 4 1 0",
     "0 18446744073709551615 1 2"].each do |at|
      text = "#{at} #{list.handle}"
      assert_refused(ArgumentError, /no such items/) { Shmarray::List._load(text) }
    end
    ["", "x", "0 0 1", "a b c d {}", "-1 0 1 1 #{list.handle}"].each do |text|
      assert_raises(ArgumentError, TypeError, RangeError, Errno::ENOENT) do
        Shmarray::List._load(text)
      end
    end
  end

  def test_a_file_has_it
    Dir.mktmpdir do |dir|
      path = Pathname("#{dir}/list")
      list = Shmarray::List.new([{ a: "x", b: nil }, { a: nil, b: 2 }])
      assert_nil list.save(path)
      found = Shmarray::List.load(path, name: "loaded")
      assert_equal [list, true], [found, found == Shmarray::List.attach("loaded")]
      assert_raises(Errno::EEXIST) { Shmarray::List.load(path.to_s, name: "loaded") }
      assert_refused(ArgumentError, /no file/) { list[1..].save(path) }
      bytes = path.binread
      broken = bytes.dup.tap { |all| all.setbyte(-20, all.getbyte(-20) ^ 1) }
      [bytes[0..-2], bytes[0, 100], "", "text" * 99, broken].each do |text|
        path.binwrite(text)
        assert_raises(ArgumentError, text.size) { Shmarray::List.load(path) }
      end
      assert_raises(Errno::ENOENT) { Shmarray::List.load("#{dir}/none") }
      assert_raises(Errno::ENOENT) { list.save("#{dir}/none/list") }
      assert_raises(TypeError) { Shmarray::List.load(5) }
      assert_equal [path], Pathname(dir).children
    end
  end

  def test_a_pipe_carries_it
    here, there = Shmarray::Pipe.pair
    away { here.send_arrays("list", [Shmarray::List.new(["x", nil])]) }
    message = there.receive
    assert_equal ["x", nil], Shmarray::List.attach(message.array(0)).to_a
    assert_raises(ArgumentError) { here.send_arrays("part", [Shmarray::List.new([1, 2])[1..]]) }
  end

  def test_ractors_have_it
    Warning[:experimental] = false # Ruby says so of Ractors
    list = Shmarray::List.new([{ a: 1, s: "x" }, { a: 2, s: "y" }])
    assert Ractor.shareable?(list)
    sum, same = Ractor.new(list) { |all| [all.field(:a).sum, all] }.take
    assert_equal [3, list], [sum, same]
    made = Ractor.new { Shmarray::List.new([[1], [2, 3]]) }.take
    assert_equal [[1], [2, 3]], made.to_a
  end

  def test_a_killed_creator_leaves_nothing
    pid = fork do
      list = Shmarray::List.new(["x"] * 100_000, name: "killed")
      Process.kill(:KILL, Process.pid) if list.size == 100_000
    end
    Process.wait(pid)
    sweep_after_deaths
    assert_empty segments_in
  end

  REFUSED = {
    [1, nil, "x"] => [TypeError, "item 2: it is a String in UTF-8, not an Integer as those " \
                                 "before it"],
    [1, 2.5] => [TypeError, "item 1: it is a Float, not an Integer as those before it"],
    [0.5, 1] => [TypeError, "item 1: it is an Integer, not a Float as those before it"],
    [true, 1] => [TypeError, "item 1: it is an Integer, not true or false as those before it"],
    [1.5, 1i] => [TypeError, "item 1: it is a Complex, not a Float as those before it"],
    ["x", "x".b] => [TypeError, "item 1: it is a binary String, not a String in UTF-8 as those " \
                                "before it"],
    ["x".b, [1]] => [TypeError, "item 1: it is an Array, not a binary String as those before it"],
    [[1], { a: 1 }] => [TypeError, "item 1: it is a Hash, not an Array as those before it"],
    [[[1], [2]], [[nil, 3.5]]] => [TypeError, "item 1: item 0: item 1: it is a Float, not an " \
                                              "Integer as those before it"],
    [{ a: { b: 1 } }, { a: { b: "x" } }] =>
      [TypeError, "item 1: field a: field b: it is a String in UTF-8, not an Integer as those " \
                  "before it"],
    [nil, { a: 1 }, { b: 1 }] => [ArgumentError,
                                  "item 2: its fields are b, not a as those before it"],
    [{ a: 1 }, { a: 1, b: 2 }] => [ArgumentError,
                                   "item 1: its fields are a, b, not a as those before it"],
    [{ a: 1, b: 2 }, { a: 1, "a" => 2 }] => [ArgumentError,
                                             "item 1: its fields are a, a, not a, b as those " \
                                             "before it"],
    [{ a: 1, "a" => 2 }] => [ArgumentError, /item 0: .*two are named "a"/],
    [{ 1 => 2 }] => [TypeError, "item 0: the name of a field is a Symbol or a String in UTF-8, " \
                                "not 1"],
    [:x] => [TypeError, "item 0: Symbol cannot be in a list"],
    [1r] => [TypeError, "item 0: Rational cannot be in a list"],
    [[Object]] => [TypeError, "item 0: item 0: Class cannot be in a list"],
    [1, 2**63] => [RangeError, /\Aitem 1: 9223372036854775808 does not fit int64/],
    ["a\xFF"] => [ArgumentError, "item 0: it is no UTF-8 from byte 1 on"],
    ["ä".encode("UTF-16LE")] => [TypeError, "item 0: it is a String in UTF-16LE: encode it in " \
                                            "UTF-8, or as binary"]
  }.freeze

  def test_items_that_do_not_agree_are_refused_by_index_and_both_kinds
    REFUSED.each do |items, (type, text)|
      words = text.is_a?(Regexp) ? text : /\A#{Regexp.escape(text)}\z/
      assert_refused(type, words, items.inspect) { Shmarray::List.new(items) }
    end
    assert_empty segments_in
  end

  def test_hashes_and_arrays_have_a_greatest_depth
    deep = ->(depth) { depth.times.reduce(1) { |inner, _| [inner] } }
    assert_equal [deep[15]], Shmarray::List.new([deep[15]]).to_a
    endless = []
    endless << endless
    [[deep[16]], endless, [{ a: deep[15] }]].each do |items|
      assert_refused(ArgumentError, /more than 16 deep/) { Shmarray::List.new(items) }
    end
  end

  def test_what_ends_the_pass_ends_it_and_leaves_nothing
    endings = { RuntimeError => -> { raise "broken" }, UncaughtThrowError => -> { throw :x },
                StopIteration => -> { raise StopIteration } }
    endings.each do |type, ending|
      source = Enumerator.new { |y| 1000.times { y << "x" } && ending.call }
      assert_raises(type) { Shmarray::List.new(source, name: "ended") }
    end
    found = catch(:out) { Shmarray::List.new((0..).lazy.map { |i| i < 9 ? i : throw(:out, i) }) }
    assert_equal 9, found
    thread = Thread.new { Shmarray::List.new((0..).lazy) }
    Thread.pass until thread.stop? || thread.status == "run"
    assert_nil thread.kill.join.value
    assert_raises(NoMethodError) { Shmarray::List.new(5) }
    assert_raises(ArgumentError) { Shmarray::List.new([], name: "no/name") }
    assert_raises(ArgumentError) { Shmarray::List.new([], persist: true) }
    assert_raises(ArgumentError) { Shmarray::List.new([], order: :F) }
    assert_empty segments_in
  end

  def test_options_are_checked_before_the_pass
    assert_raises(TypeError) { Shmarray::List.new((0..).lazy, name: 5) }
    assert_raises(ArgumentError) { Shmarray::List.new((0..).lazy, mode: -1) }
  end

  def test_lists_are_listed_as_arrays
    list = Shmarray::List.new([1, 2], name: "listed")
    facts = Shmarray.segments.find { |segment| segment[:name] == "listed" }
    assert_equal [:array, true], [facts[:kind], facts[:dtype].include?("list")]
    assert_refused(TypeError, /dtype/) { Shmarray::List.attach(array(:int8, [1]).handle) }
    assert_equal list.nbytes, Shmarray::Array.attach("listed").size
  end

  def test_when_memory_is_full_the_collector_makes_room
    in_small_tmpfs("size=4m") do
      GC.disable
      20.times { Shmarray::List.new(["x" * 1_000_000]) }
      assert_raises(Errno::ENOSPC) { Shmarray::List.new(["x" * 5_000_000]) }
      GC.enable
      GC.start
    end
  end
end
