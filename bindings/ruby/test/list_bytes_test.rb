# frozen_string_literal: true

require_relative "helper"
require_relative "list_helper"

# The bytes of lists: those that another program wrote, and broken ones.
class ListBytesTest < SharedMemoryTest
  include ListHelper

  def classes
    [Shmarray::List, *(Numo::Shared::List if NUMO)]
  end

  def test_there_are_golden_lists
    assert_operator INDEX.size, :>, 8
    assert_equal INDEX.keys, INDEX.keys & Dir.children(GOLDEN)
  end

  INDEX.each do |name, items|
    define_method("test_golden_#{name}") do
      array = array_of_bytes(golden(name))
      classes.each do |list|
        found = list.attach(array.handle)
        assert_equal items.size, found.size
        assert_equal items, found.map { |item| as_json(item, found.kind) }, name
      end
    end
  end

  # An item as the index has it.
  def as_json(item, kind = nil)
    case item
    when Hash then item.to_h { |key, value| [key.to_s, as_json(value)] }
    when Array then item.map { |one| as_json(one) }
    when String then kind == :bytes ? item.unpack1("H*") : item
    when Integer, Float, nil then item
    else { "shape" => item.shape, "elements" => item.to_a.flatten }
    end
  end

  def test_pickles_are_refused
    array = array_of_bytes(golden("pickles"))
    classes.each do |list|
      found = list.attach(array.handle)
      assert_equal :pickles, found.kind
      assert_match(/\A#<#{list} \d+ pickles>\z/, found.inspect)
      at = (0...found.size).find { |index| reads?(found, index) == false }
      assert_refused(TypeError, /item #{at} is a pickle.*only Python reads/) { found[at] }
    end
  end

  def reads?(list, index)
    list[index].nil?
  rescue TypeError
    false
  end

  def test_what_is_no_list_is_refused_with_its_field
    bytes = golden("strings")
    { 0 => /magic/, 8 => /version/, 12 => /columns/, 16 => /bytes/, 24 => /length/,
      64 => /kind/, 96 => /values/ }.each do |at, words|
      broken = bytes.dup.tap { |all| all.setbyte(at, all.getbyte(at) ^ 0x7f) }
      assert_refused(Shmarray::Error, words, at) { Shmarray::List.attach(array_of_bytes(broken)) }
    end
    [0, 63, 191].each do |size|
      assert_raises(Shmarray::Error) { Shmarray::List.attach(array_of_bytes(bytes[0, size])) }
    end
    two = Shmarray::Array.create(DTYPE, 2, 100)
    assert_raises(Shmarray::Error) { Shmarray::List.attach(two.handle) }
    assert_raises(TypeError) { Shmarray::List.attach(Shmarray::Array.create(:uint8, 500).handle) }
  end

  # Each byte is changed in some ways: the list is refused, or each of its items is, or is another.
  def test_any_bytes_are_a_list_or_refused
    reads = 0
    (INDEX.keys + ["pickles"]).each do |name|
      bytes = golden(name)
      array = array_of_bytes(bytes)
      (0...bytes.size).each do |at|
        [0x01, 0x80, 0xff].each do |bits|
          array[at] = [bytes.getbyte(at) ^ bits].pack("C")
          reads += 1 if read_all(array)
        end
        array[at] = bytes[at]
      end
    end
    assert_operator reads, :>, 1000
  end

  def read_all(array)
    list = classes.last.attach(array)
    [list, *list.fields.map { |name| list.field(name) }].each do |part|
      read_items(part)
      refused { part.values }
      refused { part[0, 3]&.offsets }
    end
  rescue Shmarray::Error
    nil
  end

  # A broken list may say that it has any number of items.
  def read_items(list)
    [*0..20, -1].each { |index| refused { list[index].inspect } }
  end

  def refused
    yield
  rescue Shmarray::Error, ArgumentError, TypeError, NoMemoryError, SystemCallError
    nil
  end

  # Items without bytes may be any number.
  def test_a_list_may_say_that_it_has_any_number_of_items
    most = 2**64 - 1
    bytes = golden("nothing").tap { |all| [24, 72, 80].each { |at| all[at, 8] = [most].pack("Q") } }
    list = Shmarray::List.attach(array_of_bytes(bytes))
    assert_equal [most, nil, most], [list.size, list[2**62], list.each.size]
    assert_equal [3, [nil]], [list[-3..].size, list.last(1).to_a]
    assert_equal [9, 2**62], [list[2**62, 9].size, list[(0..) % 2].size]
    assert_raises(ArgumentError) { list.values }
    assert_match(/nothing/, list.inspect)

    empty = Shmarray::List.new([Shmarray::Array.create(:int8, 0, 2)] * 2)
    bytes = Shmarray::Array.attach(empty.handle).to_bytes
    [24, 72].each { |at| bytes[at, 8] = [most].pack("Q") }
    list = Shmarray::List.attach(array_of_bytes(bytes))
    assert_equal [most, [0, 2], [0, 0, 0]], [list.size, list[2**62].shape, list[0..1].offsets.to_a]
    assert_raises(ArgumentError, Errno::ENOSPC, NoMemoryError) { list.offsets }
  end

  def test_strings_that_are_no_utf8_are_refused_when_they_are_read
    bytes = golden("strings")
    at = bytes.index("text")
    list = Shmarray::List.attach(array_of_bytes(bytes.dup.tap { |all| all.setbyte(at, 0xff) }))
    assert_equal "naïve", list[1]
    assert_refused(Shmarray::Error, /item 3.*utf-8/i) { list[3] }
  end

  def test_a_list_that_is_written_to_gives_other_items_or_errors
    array = array_of_bytes(golden("strings"))
    list = Shmarray::List.attach(array)
    array[64..] = "\xff".b
    list.size.times { |index| refused { list[index] } }
    refute_equal INDEX["strings"], list.size.times.map { |index| refused { list[index] } }
  end
end
