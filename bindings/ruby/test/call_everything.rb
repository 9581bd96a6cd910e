# frozen_string_literal: true

# Calls every method that Numo's arrays have with arguments of many kinds.
module CallEverything
  # debug_info prints; poly recurses endlessly on some of these arguments, as on any array.
  SPARED = %i[debug_info poly].freeze
  # Methods that only Ruby calls.
  HIDDEN = %i[initialize initialize_copy marshal_load].freeze
  KINDS = %i[itself view transpose inplace].freeze

  # Calls the methods on a fresh array, which the block returns, and on views of it. Returns the
  # number of calls. Each array is passed to +after+ with the call. No argument is a negative
  # number: Numo raises an unsigned number to such a power for ever, and divides the least number by
  # -1.
  def call_everything(after: nil)
    methods = yield.methods - Object.instance_methods - SPARED + HIDDEN
    methods.product(KINDS, arguments).count do |method, kind, arguments|
      array = yield
      call(array, method, kind, arguments)
      after&.call(array, [kind, method, arguments])
      true
    end
  end

  def arguments
    [[], [0], [1, 0], [2.5], [[1, 2, 3]], [Numo::Int32[1, 2, 3]], [true, 1], [0..1, 1], [9],
     ["x" * 144], [("x" * 144).freeze], [0, 0, 5], [nil], [2**70]]
  end

  private

  def call(array, method, kind, arguments)
    array.public_send(kind).send(method, *arguments) { 1 }
  rescue StandardError, NotImplementedError, SystemStackError, NoMemoryError
    nil
  end
end
