# frozen_string_literal: true

require_relative "helper"

# Random operations on shared arrays, and the same on private ones: they never differ.
#
# SEED=n repeats a run, OPERATIONS=n makes it longer.
class NumoRandomTest < NumoTest
  # A shared array, and a private one with the same history. Views of both alias in the same way.
  Pair = Struct.new(:shared, :model) do
    def both
      self.class.new(yield(shared), yield(model))
    end
  end

  def setup
    @seed = Integer(ENV.fetch("SEED") { Random.new_seed & 0xffffffff })
    @random = Random.new(@seed)
    @pairs = []
    @done = Hash.new(0)
    @count = Integer(ENV.fetch("OPERATIONS", 20_000))
  end

  def pick(list)
    list[@random.rand(list.size)]
  end

  def number
    @random.rand(100)
  end

  # There is less to choose from if the array is empty, or has no dimensions.
  def dimension(array)
    @random.rand(array.ndim)
  end

  MAKE = {
    new: lambda do
      shape = some_shape
      type = pick(CLASSES)
      Pair.new(Shared.new(type, shape), type.zeros(*shape))
    end,
    new_in_f_order: lambda do
      shape = some_shape
      type = pick(CLASSES)
      Pair.new(Shared.new(type, shape, order: :F), type.zeros(*shape))
    end,
    share: -> { some_private.then { |made| Pair.new(Shared.share(made), made.dup) } },
    share_view: lambda do
      made = some_private.transpose
      made = made.reverse unless made.size.zero?
      Pair.new(Shared.share(made), made.dup)
    end,
    plain: lambda do
      a = Shmarray::Array.create(:int32, [3, 2])
      Pair.new(Shared.attach(a), Numo::Int32.zeros(3, 2))
    end
  }.freeze

  def some_shape
    ::Array.new(@random.rand(4)) { @random.rand(6) }
  end

  def some_private
    pick(CLASSES).zeros(*some_shape).then { |made| made.size.zero? ? made : made.seq(number) }
  end

  DERIVE = {
    view: ->(_) { :view.to_proc },
    transpose: ->(_) { :transpose.to_proc },
    reverse: ->(_) { :reverse.to_proc },
    expand: ->(_) { ->(a) { a.expand_dims(0) } },
    range: lambda do |a|
      d = dimension(a)
      from = @random.rand(a.shape[d])
      ->(x) { x[*index(x, d, from..-1)] }
    end,
    steps: ->(a) { d = dimension(a); ->(x) { x[*index(x, d, (0..-1) % 2)] } },
    row: lambda do |a|
      next DERIVE[:view].call(a) if a.ndim < 2

      d = dimension(a)
      at = @random.rand(a.shape[d])
      ->(x) { x[*index(x, d, at)] }
    end,
    diagonal: ->(a) { a.ndim < 2 ? DERIVE[:view].call(a) : :diagonal.to_proc },
    swapaxes: ->(a) { d = dimension(a); ->(x) { x.swapaxes(0, d) } }
  }.freeze

  def index(array, dimension, what)
    ::Array.new(array.ndim, true).tap { |all| all[dimension] = what }
  end

  # Numo itself would store into a view as if that had no offset and no strides.
  def store_bytes(array, bytes)
    return array.store_binary(bytes) if Shared.shared?(array)

    array.store(array.class.from_binary(+bytes, array.shape))
  end

  # Other ways to the same memory; the model stays as it is.
  PASS = {
    attach: ->(a) { Shared.attach(Shared.handle(a)) },
    sent: ->(a) { Shared.attach(Shared.handle_to_send(a)) },
    message: lambda do |a|
      here, there = Shmarray::Pipe.pair
      here.send_arrays("", [a])
      there.receive { |message| Shared.attach(message.array(0)) }
    end,
    reference: ->(a) { Marshal.load(Marshal.dump(Shared::Reference.new(a))) },
    wrapped: ->(a) { Shared.attach(Shmarray::Array.attach(Shared.handle(a))) }
  }.freeze

  WRITE = {
    fill: ->(_) { n = number; ->(a) { a.fill(n) } },
    seq: ->(_) { n = number; ->(a) { a.seq(n) } },
    store: ->(_) { n = number; ->(a) { a.store(a.class.zeros(*a.shape).fill(n)) } },
    element: lambda do |a|
      at = a.shape.map { |count| @random.rand(count) }
      n = number
      ->(x) { x[*at] = n }
    end,
    add: ->(_) { n = number; ->(a) { a.inplace + n } },
    multiply: ->(_) { ->(a) { a.inplace * 3 } },
    some: ->(a) { d = dimension(a); n = number; ->(x) { x[*index(x, d, 0..0)] = n } },
    every_other: lambda do |a|
      d = dimension(a)
      n = number
      ->(x) { x[*index(x, d, (0..-1) % 2)].fill(n) }
    end,
    bytes: lambda do |a|
      bytes = ::Array.new(a.byte_size) { number }.pack("C*")
      bytes.freeze if number.odd?
      ->(x) { store_bytes(x, bytes) }
    end
  }.freeze

  READ = {
    dup: :dup.to_proc,
    copy: :copy.to_proc,
    arithmetic: ->(a) { a + 1 },
    marshal: ->(a) { Marshal.load(Marshal.dump(a)) },
    binary: ->(a) { a.dup.to_binary },
    to_a: ->(a) { a.to_a.inspect },
    shape: :shape.to_proc,
    negative: :-@.to_proc,
    sum: ->(a) { a.size.zero? ? 0 : a.sum.inspect }
  }.freeze

  REFUSED = {
    again: ->(a) { a.send(:initialize, 5) },
    copy_into: ->(a) { a.send(:initialize_copy, Numo::Int32.zeros(9)) },
    load: ->(a) { a.marshal_load(Numo::Int32.zeros(9).marshal_dump) },
    write_protected: ->(a) { Shared.attach(Shared.handle(a), readonly: true).fill(1) }
  }.freeze

  STEPS = [[:make, 10], [:derive, 20], [:pass, 12], [:write, 28], [:read, 15], [:refuse, 5],
           [:free, 2], [:drop, 8]].flat_map { |step, weight| [step] * weight }.freeze
  MOST = 40

  def do_one
    step = @pairs.empty? ? :make : pick(STEPS)
    step = :drop if @pairs.size >= MOST
    @pair = pick(@pairs) unless @pairs.empty?
    send(step)
  end

  def run_of(table)
    name = pick(table.keys)
    @done[name] += 1
    table[name]
  end

  def make
    @pairs << (@pair = instance_exec(&run_of(MAKE)))
  end

  def derive
    way = run_of(DERIVE)
    return if @pair.model.size.zero? || @pair.model.ndim.zero?

    same = instance_exec(@pair.model, &way)
    @pairs << (@pair = @pair.both { |array| same.call(array) })
  end

  def pass
    @pairs << (@pair = Pair.new(run_of(PASS).call(@pair.shared), @pair.model))
  end

  def write
    way = run_of(WRITE)
    return if @pair.model.size.zero? || @pair.model.ndim.zero?

    same = instance_exec(@pair.model, &way)
    @pair.to_a.each(&same)
  end

  def read
    results = @pair.both(&run_of(READ))
    assert_equal results.model, results.shared
    refute Shared.shared?(results.shared)
  end

  def refuse
    return if @pair.model.size.zero?

    way = run_of(REFUSED)
    assert_raises(TypeError, RuntimeError) { way.call(@pair.shared) }
  end

  def free
    @pair.shared.free
    @done[:free] += 1
  end

  def drop
    @pairs.delete_at(@random.rand(@pairs.size))
    @done[:drop] += 1
    @pair = nil
  end

  def assert_same(pair)
    assert Shared.shared?(pair.shared)
    assert_equal [pair.model.class, pair.model.shape], [pair.shared.class, pair.shared.shape]
    assert_equal pair.model.dup.to_binary, pair.shared.dup.to_binary
  end

  def walk(count)
    count.times do |at|
      do_one
      assert_same @pair if @pair
      @pairs.each { |pair| assert_same pair } if (at % 500).zero?
      yield at if block_given?
    rescue StandardError, Minitest::Assertion
      puts "SEED=#{@seed}, operation #{at}, #{@pair.inspect}"
      raise
    end
    @pairs.each { |pair| assert_same pair }
  end

  def tables
    [MAKE, DERIVE, PASS, WRITE, READ, REFUSED].flat_map(&:keys) + %i[free drop]
  end

  def test_they_never_differ
    away do
      walk(@count) do |at|
        GC.start if (at % 1000).zero?
        GC.compact if (at % 5000).zero? && GC.respond_to?(:compact)
      end
      assert_empty tables - @done.keys
      @pairs = @pair = nil
    end
    collect
    assert_operator listed_arrays.size, :<=, 2 # what a register or the stack may still seem to name
  end

  def test_they_never_differ_under_gc_stress
    walk(100)
    GC.stress = true
    (@count / 300).times { do_one }
    GC.stress = false
    walk(100)
  ensure
    GC.stress = false
  end
end
