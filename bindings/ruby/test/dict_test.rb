# frozen_string_literal: true

require_relative "helper"
require_relative "list_helper"
require "pathname"

# Dictionaries: a key finds what a Hash would, and nothing else.
class DictTest < SharedMemoryTest
  include ListHelper

  Dict = Shmarray::Dict

  SAMPLES = {
    strings: { "" => 1, "ä" => nil, "a" * 1000 => 3, "1" => 4 },
    bytes: { "".b => "x", "\x00".b => nil, "\xFF\x00".b => "y" },
    numbers: { 0 => 1.5, -1 => nil, 2**63 - 1 => 2.5, -2**63 => 3.5 },
    records: (0...1000).to_h { |i| ["key #{i}", { size: i, text: i.to_s }] },
    nothing: {}
  }.freeze
  NO_KEYS = ["nowhere", "nowhere".b, "\xFF", "ä".encode("UTF-16LE"), "ä".encode("ISO-8859-1"),
             :none, 12_345, 2**63, -2**70, 1.5, 0.0, nil, true, [1], { a: 1 }, Object.new].freeze

  def assert_dict(expected, found)
    assert_equal [expected, expected.size, expected.keys], [found.to_h, found.size, found.keys.to_a]
    assert_equal expected.values, found.values.to_a
    expected.each do |key, value|
      assert found.key?(key), key.inspect
      assert_equal [value, value], [found[key], found.fetch(key)] unless value.nil?
      assert_nil found.fetch(key) if value.nil?
    end
    NO_KEYS.each do |key|
      assert_equal [false, nil, :none], [found.key?(key), found[key], found.fetch(key, :none)],
                   key.inspect
    end
  end

  def test_it_is_the_hash_that_it_was_made_of
    SAMPLES.each_value do |expected|
      dict = Dict.new(expected)
      assert_dict expected, dict
      assert_dict expected, Dict.attach(dict.handle)
      assert_dict expected, Dict.new(expected.each)
      assert_dict expected, Dict.new(dict)
      assert_dict expected, Marshal.load(Marshal.dump(dict))
    end
  end

  def test_the_keys_are_of_one_kind
    %i[strings bytes numbers nothing].each do |kind|
      assert_equal kind, Dict.new(SAMPLES[kind]).keys.kind
    end
  end

  def test_another_process_attaches_by_handle_and_by_name
    dict = Dict.new(SAMPLES[:strings], name: "samples")
    script = <<~RUBY
      require "shmarray"
      ARGV.each { |text| p Shmarray::Dict.attach(text).to_h }
    RUBY
    assert_equal [dict.to_h.inspect] * 2,
                 ruby_says(script, dict.handle, "samples").lines(chomp: true)
    assert_equal 4, in_child { Dict.attach("samples")["1"] }
    assert_raises(Errno::EEXIST) { Dict.new({}, name: "samples") }
  end

  def test_a_name_stays_as_long_as_it_was_asked_to
    away { Dict.new({ "a" => 1 }, name: "gone") && nil }
    away { Dict.new({ "a" => 2 }, name: "there", persist: true) && nil }
    collect
    assert_raises(Errno::ENOENT) { Dict.attach("gone") }
    assert_equal 2, Dict.attach("there")["a"]
    Shmarray.unlink("there")
  end

  def test_a_symbol_is_its_string
    dict = Dict.new({ one: 1, "two" => 2 })
    assert_equal({ "one" => 1, "two" => 2 }, dict.to_h)
    assert_equal [1, 1, 2, 2], [dict[:one], dict["one"], dict[:two], dict["two"]]
    assert_nil dict[:three]
    assert_refused(ArgumentError, /number 0 and number 1 are the same/) do
      Dict.new({ a: 1, "a" => 2 })
    end
  end

  def test_a_string_of_ascii_is_found_in_any_encoding_as_in_a_hash
    samples = { strings: { "abc" => 1, "ä" => 2 }, bytes: { "abc".b => 1, "\xC3\xA4".b => 2 } }
    sought = %w[UTF-8 ASCII-8BIT US-ASCII ISO-8859-1].map { |name| "abc".encode(name) }
    sought += ["ä", "ä".b, "ä".encode("ISO-8859-1"), "abc".encode("UTF-16LE")]
    samples.each_value do |expected|
      dict = Dict.new(expected)
      sought.each do |key|
        assert_equal [expected[key]], [dict[key]], [key, key.encoding].inspect
      end
    end
  end

  def test_it_is_a_collection
    dict = Dict.new({ "b" => 1, "a" => 2, "c" => nil })
    assert_equal [["b", 1], ["a", 2], ["c", nil]], dict.to_a
    assert_equal dict.to_a, dict.each_pair.to_a
    assert_equal %w[b aa], dict.first(2).map { |key, value| key * value }
    assert_equal({ 1 => "b", 2 => "a", nil => "c" }, dict.to_h { |key, value| [value, key] })
    assert_equal [3, 3, 3, false, true],
                 [dict.each.size, dict.length, dict.count, dict.empty?, Dict.new({}).empty?]
    assert dict.equal?(dict.each { |key, value| [key, value] })
    assert(%i[key? has_key? include? member?].all? { |name| dict.public_send(name, "c") })
    assert_equal [2, nil, nil], dict.values_at("a", "c", "d")
    assert_equal [["a", 2]], dict.select { |_, value| value == 2 }
  end

  def test_fetch_is_that_of_a_hash
    dict = Dict.new({ "a" => nil })
    assert_nil dict.fetch("a", 5)
    assert_equal [5, "bb"], [dict.fetch("b", 5), dict.fetch("b") { |key| key * 2 }]
    error = assert_raises(KeyError) { dict.fetch(:b) }
    assert_equal ["key not found: :b", :b, true],
                 [error.message, error.key, error.receiver.equal?(dict)]
  end

  def test_dig_goes_into_values
    dict = Dict.new({ "a" => { sizes: [1, 2] }, "b" => nil })
    assert_equal [2, { sizes: [1, 2] }], [dict.dig("a", :sizes, 1), dict.dig("a")]
    assert_equal [nil, nil], [dict.dig("b", :sizes), dict.dig("c", :sizes, 0)]
    assert_raises(TypeError) { Dict.new({ "a" => 1 }).dig("a", 0) }
  end

  def test_everything_is_frozen
    dict = Dict.new({ "a" => { text: "x" } })
    assert [dict, dict.keys, dict.values, dict["a"], dict.keys[0]].all?(&:frozen?)
    refute_respond_to dict, :[]=
    assert dict.equal?(dict.dup) && dict.equal?(dict.clone)
    assert_raises(ArgumentError) { dict.clone(freeze: false) }
    assert_raises(TypeError) { Dict.allocate }
    assert_equal [Encoding::UTF_8, Encoding::BINARY],
                 [dict.keys[0].encoding, Dict.new({ "a".b => 1 }).keys[0].encoding]
  end

  def test_dictionaries_are_equal_by_their_entries_in_any_order
    dict = Dict.new({ "a" => 1, "b" => nil })
    assert_equal dict, Dict.new({ b: nil, a: 1.0 })
    [{ "a" => 1 }, { "a" => 1, "c" => nil }, { "a" => 2, "b" => nil }].each do |entries|
      refute_equal dict, Dict.new(entries)
    end
    refute_equal dict, dict.to_h
    refute_equal dict, dict.keys
  end

  def test_values_are_lists_over_the_same_memory
    arrays = (1..3).to_h { |i| [i, Shmarray::Array.create(:int16, i).fill(i)] }
    dict = Dict.new(arrays)
    before = Shmarray.copied_bytes
    assert_equal [2, 2], dict[2].to_a
    assert_equal [1, 2, 2, 3, 3, 3], dict.values.values.to_a
    assert_equal before, Shmarray.copied_bytes
    assert dict[2].readonly?
    segment = ->(handle) { JSON.parse(handle)["segment"] }
    assert_equal segment[dict.handle], segment[dict[2].handle]
    assert_refused(ArgumentError, /no handle and no file/) { dict.values.handle }
    assert_refused(ArgumentError, /no handle and no file/) { dict.keys.save("keys") }
  end

  def test_a_value_outlives_its_dictionary
    value, keys = away do
      dict = Dict.new({ "a" => Shmarray::Array.create(:int8, 2).fill(7) })
      [dict["a"], dict.keys]
    end
    collect
    assert_equal [[7, 7], ["a"]], [value.to_a, keys.to_a]
  end

  def test_marshal_carries_it_and_its_parts
    dict = Dict.new({ "a" => 1, "b" => 2, "c" => 3 })
    copy = Marshal.load(Marshal.dump([dict]))[0]
    assert_equal [dict, dict.handle], [copy, copy.handle]
    [dict.keys, dict.values, dict.values[1..], dict.keys[(-1..0) % -2]].each do |part|
      assert_equal part.to_a, Marshal.load(Marshal.dump(part)).to_a
    end
    text = away { Marshal.dump(Dict.new({ "a" => 1 })) }
    collect
    Shmarray.sweep
    assert_equal 1, away { Marshal.load(text)["a"] }
    collect
    assert_raises(Errno::ENOENT) { Marshal.load(text) }
    text = "0 0 1 3 #{dict.handle}" # the entries, which are no items
    assert_refused(ArgumentError, /no such items/) { Shmarray::List._load(text) }
  end

  def test_a_pipe_carries_it
    here, there = Shmarray::Pipe.pair
    away { here.send_arrays("dict", [Dict.new({ "a" => 1 })]) }
    assert_equal 1, Dict.attach(there.receive.array(0))["a"]
  end

  def test_a_file_has_it
    Dir.mktmpdir do |dir|
      path = Pathname("#{dir}/dict")
      dict = Dict.new(SAMPLES[:strings])
      assert_nil dict.save(path)
      found = Dict.load(path, name: "loaded")
      assert_equal [dict, true], [found, found == Dict.attach("loaded")]
      assert_refused(ArgumentError, /it is a dictionary/) { Shmarray::List.load(path) }
      bytes = path.binread
      broken = bytes.dup.tap { |all| all.setbyte(-20, all.getbyte(-20) ^ 1) }
      [bytes[0..-2], bytes[0, 100], "", broken].each do |text|
        path.binwrite(text)
        assert_raises(ArgumentError, text.size) { Dict.load(path) }
      end
      Shmarray::List.new(["a"]).save(path)
      assert_refused(ArgumentError, /it is a list/) { Dict.load(path) }
      assert_raises(Errno::ENOENT) { Dict.load("#{dir}/none") }
    end
  end

  def test_ractors_have_it
    Warning[:experimental] = false # Ruby says so of Ractors
    dict = Dict.new({ "a" => 1, "b" => 2 })
    assert Ractor.shareable?(dict)
    found, sum, same = Ractor.new(dict) { |all| [all["b"], all.values.sum, all] }.take
    assert_equal [2, 3, true], [found, sum, same.equal?(dict)]
    assert_equal 5, Ractor.new { Dict.new({ a: 5 }) }.take[:a]
  end

  REFUSED = {
    { "a" => 1, 2 => 3 } => [TypeError, "key 2: it is an Integer, not a String in UTF-8 as those " \
                                        "before it"],
    { 1 => 1, "b" => 2 } => [TypeError, 'key "b": it is a String in UTF-8, not an Integer as ' \
                                        "those before it"],
    { a: 1, "\xFF".b => 2 } => [TypeError, 'key "\xFF": it is a binary String, not a String in ' \
                                           "UTF-8 as those before it"],
    { 1.5 => 1 } => [TypeError, "key 1.5: it is no String, Symbol or Integer"],
    { nil => 1 } => [TypeError, "key nil: it is no String, Symbol or Integer"],
    { [1] => 1 } => [TypeError, "key [1]: it is no String, Symbol or Integer"],
    { "ä".encode("UTF-16LE") => 1 } => [TypeError, /\Akey ".*": it is a String in UTF-16LE: enc/],
    { "a\xFF" => 1 } => [ArgumentError, 'key "a\xFF": it is no UTF-8 from byte 1 on'],
    { 2**63 => 1 } => [RangeError, /\Akey 9223372036854775808: 9223372036854775808 does not fit/],
    { "a" => 1, "b" => 1.5 } => [TypeError, 'key "b": its value: it is a Float, not an Integer ' \
                                            "as those before it"],
    { "a" => [1], "b" => [nil, "x"] } => [TypeError, 'key "b": its value: item 1: it is a String ' \
                                                     "in UTF-8, not an Integer as those before it"],
    { "a" => Object } => [TypeError, 'key "a": its value: Class cannot be in a list'],
    [["a", 1], ["b", 2], ["a", 3]] => [ArgumentError, /number 0 and number 2 are the same/],
    [1] => [TypeError, "1 is no pair of a key and its value"],
    [["a", 1, 2]] => [TypeError, '["a", 1, 2] is no pair of a key and its value']
  }.freeze

  def test_keys_and_values_that_do_not_agree_are_refused_by_the_key
    REFUSED.each do |entries, (type, text)|
      words = text.is_a?(Regexp) ? text : /\A#{Regexp.escape(text)}\z/
      assert_refused(type, words, entries.inspect) { Dict.new(entries) }
    end
    assert_raises(NoMethodError) { Dict.new(5) }
    assert_raises(ArgumentError) { Dict.new({}, name: "no/name") }
    assert_raises(ArgumentError) { Dict.new({}, persist: true) }
    assert_empty segments_in
  end

  def test_a_list_is_no_dictionary
    list = Shmarray::List.new([1])
    dict = Dict.new({ "a" => 1 })
    assert_refused(TypeError, /dict/) { Dict.attach(list.handle) }
    assert_refused(TypeError, /list/) { Shmarray::List.attach(dict.handle) }
    assert_refused(TypeError, /dict/) { Dict.attach(Shmarray::Array.create(:int8, 1).handle) }
  end

  def test_a_golden_dictionary_is_read
    dict = Dict.attach(dict_of_bytes(golden("dictionary")))
    assert_equal 22, dict.size
    assert_equal ["", "ä", *(0...20).map { |i| "key #{i}" }], dict.keys.to_a
    assert_equal [0, 1, 2, nil], dict.values_at("", "ä", "key 0", "key 19")
    assert dict.key?("key 19")
  end

  def dict_of_bytes(bytes)
    array = Shmarray::Array.create('{"descr":"dict","itemsize":1}', bytes.bytesize)
    array.tap { array[nil] = bytes.b.chars }
  end

  def test_broken_bytes_are_refused_or_every_key_is_an_answer
    dict = Dict.new({ "one" => "x", "two" => "yy" })
    bytes = bytes_of(dict)
    outcomes = (0...bytes.bytesize).map do |at|
      broken = bytes.dup.tap { |all| all.setbyte(at, all.getbyte(at) ^ 0xFF) }
      found = Dict.attach(dict_of_bytes(broken))
      [found["one"], found["three"], found.values.to_a]
      :read
    rescue Shmarray::Error, TypeError
      :refused
    end
    assert_operator outcomes.count(:read), :>, 20
    assert_operator outcomes.count(:refused), :>, 20
    (0...bytes.bytesize).step(7) do |kept|
      assert_raises(Shmarray::Error) { Dict.attach(dict_of_bytes(bytes[0, kept])) }
    end
  end

  # A saved dictionary has its bytes, and 16 behind them.
  def bytes_of(dict)
    Dir.mktmpdir do |dir|
      dict.save("#{dir}/dict")
      File.binread("#{dir}/dict")[0..-17]
    end
  end

  def test_dictionaries_are_listed_as_arrays
    dict = Dict.new({ "a" => 1 }, name: "listed")
    facts = Shmarray.segments.find { |segment| segment[:name] == "listed" }
    assert_equal [:array, true], [facts[:kind], facts[:dtype].include?("dict")]
    assert_equal dict.nbytes, Shmarray::Array.attach("listed").size
    assert_equal ["#<Shmarray::Dict 1 strings to numbers>"] * 2, [dict.inspect, dict.to_s]
  end

  def test_when_memory_is_full_the_collector_makes_room
    in_small_tmpfs("size=4m") do
      GC.disable
      20.times { |i| Dict.new({ i => "x" * 1_000_000 }) }
      assert_raises(Errno::ENOSPC) { Dict.new({ 1 => "x" * 5_000_000 }) }
      GC.enable
      GC.start
    end
  end

  def test_the_collector_may_always_run
    GC.stress = true
    dict = Dict.new({ a: { s: "x" }, "b" => { "s" => nil } })
    assert_equal [{ s: "x" }, nil], [dict["a"], dict[:b][:s]]
    assert_equal %w[a b], dict.keys.to_a
  ensure
    GC.stress = false
  end
end
