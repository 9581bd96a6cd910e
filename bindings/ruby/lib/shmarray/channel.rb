# frozen_string_literal: true

require "io/wait" # IO#wait_readable, which Ruby 3.1 does not have by itself
require "shmarray/waits"

module Shmarray
  # A bounded queue of arrays in shared memory. Any process opens it by its name or its handle.
  #
  # A sender takes a slot on {#loan}, fills it in place and publishes it; a receiver looks at the
  # slot itself. Nothing is copied. Programs in other languages open the same channel. Each message
  # goes to one receiver (+mode: :queue+) or to all (+:broadcast+), in the order of each sender; or
  # the last one is there for all (+:latest+). A process that is killed costs the others the message
  # that it had, and nothing else.
  #
  # A channel lives while anyone has it open. In a forked child it is opened anew.
  #
  # @example The other end may be in another process
  #   camera = Shmarray::Channel.create("frames", :float32, [2, 3], slots: 4)
  #   viewer = Shmarray::Channel.open("frames")
  #   camera.loan(meta: "left") { |frame| frame.fill(0.5) }
  #   camera.close
  #   seen = []
  #   viewer.each { |frame, message| seen << frame.sum << message.meta } # until all have closed
  #   seen # => [3.0, "left"]
  #
  # An array of a message lies in its slot, so the array and its views are valid inside its block,
  # and closed after it. {Delivery#keep} keeps the slot for longer. Methods of Enumerable that
  # return arrays, and an Enumerator, give copies.
  #
  # Whatever ends a block, the slot is published or given back at once: an exception of it or of
  # another thread, +Timeout+, +Thread#kill+, +break+. With a fiber scheduler every wait lets other
  # fibers run.
  #
  # @example A block's array, and what outlives the block
  #   channel = Shmarray::Channel.create("frames", :int32, [3])
  #   3.times { |number| channel.loan { |frame| frame.fill(number) } }
  #   frame = nil
  #   channel.receive { |array| frame = array } # its slot is given back
  #   frame.closed? # => true
  #   kept = channel.receive { |_, message| message.keep } # has the slot for as long as it lives
  #   copy = channel.receive { |_, message| message.copy } # has memory of its own
  #   [kept.to_a, copy.to_a] # => [[1, 1, 1], [2, 2, 2]]
  class Channel
    include Enumerable

    # A received message, which blocks get beside its array.
    class Delivery
      # @!method sequence
      #   @return [Integer] 0 for the first message of the channel, 1 more for each after it
      # @!method time_ns
      #   @return [Integer] when it was published, in nanoseconds since 1970
      # @!method age
      #   @return [Float] the seconds since then, by the system's clock
      # @!method meta
      #   @return [String] the bytes that were sent beside the array
      # @!method missed
      #   @return [Integer] how many messages were dropped since the one before

      # @!method keep
      #   Lets the array and its views keep the slot for as long as one of them lives; a
      #   {Shmarray::Array}, until it is closed. Senders have a slot less meanwhile.
      #   @return [Array, Numo::NArray] the array of the block
      #   @raise [IOError] after the block

      # @!method copy
      #   @return [Array, Numo::NArray] a copy of the array
      #   @raise [IOError] after the block
    end

    class << self
      # Makes a channel whose messages are arrays of this dtype and shape.
      #
      # @param name [String] 1 to 64 of the characters +A-Z a-z 0-9 . _ -+
      # @param dtype [Symbol, String] as for {Array.create}
      # @param shape [Integer, ::Array<Integer>] elements in each dimension
      # @param slots [Integer] how many messages can be under way, at most 1023
      # @param mode [:queue, :broadcast, :latest] whether a message goes to one receiver or to each;
      #   or whether only the last one is there, which any number of receivers read as often as they
      #   like, and each sender overwrites without waiting for them. Then there are at least 3
      #   slots: half of them can be looked at in place, and a value in the other half is copied
      #   when it is received
      # @param when_full [:block, :drop_oldest, :error] what a sender does when all slots are taken:
      #   it waits; it drops the oldest message, and receivers are told how many they missed; or it
      #   raises {Full}
      # @param exist_ok [Boolean] whether an existing channel of this description is opened instead,
      #   one that differs, also in `persist` or `file_mode`, is an ArgumentError
      # @param varying [Boolean] whether each message has a shape of its own, up to this one
      # @param persist [Boolean] whether it outlives its processes, until {Shmarray.unlink}
      # @param file_mode [Integer] permissions; with 0o644 other users can follow a broadcast
      # @param ends [Integer] how many can have it open, at most 1023
      # @return [Channel]
      # @raise [Errno::EEXIST] if the name is taken
      # @raise [Errno::ENOSPC] if shared memory is full
      # @raise [ArgumentError, TypeError] if an argument is impossible
      def create(name, dtype, shape, slots: 8, mode: :queue, when_full: :block, exist_ok: false,
                 varying: false, persist: false, file_mode: 0o600, ends: 128)
        made(name, dtype, shape, [counted(:slots, slots), mode, when_full, exist_ok, varying,
                                  persist, counted(:file_mode, file_mode), counted(:ends, ends)])
      end

      # Makes a channel whose messages are shared arrays outside of the channel. A message
      # holds its array until it is received. Such a channel has no loans.
      #
      # @param name [String]
      # @return [Channel]
      # @example
      #   arrays = Shmarray::Channel.create_by_handle("arrays")
      #   arrays.send_array(Shmarray::Array.create(:int32, [2, 3]))
      #   arrays.receive { |a| a.shape } # => [2, 3]
      def create_by_handle(name, slots: 8, mode: :queue, when_full: :block, exist_ok: false,
                           persist: false, ends: 128)
        made(name, nil, nil, [counted(:slots, slots), mode, when_full, exist_ok, false, persist,
                              0o600, counted(:ends, ends)])
      end

      # Opens the channel that has a name, or a handle.
      #
      # A broadcast is received from now on, or with +receive: false+ from the first {#receive} on.
      # Pass that where you only send: a receiver that never receives stops every sender of a
      # broadcast, and itself. A broadcast of another user that was made with +file_mode: 0o644+ is
      # followed: its messages are copied.
      #
      # @param handle_or_name [String]
      # @param receive [Boolean]
      # @param history [Integer] receives first so many earlier messages of a broadcast: the last
      #   ones of which the slots have not been needed for others
      # @param timeout [Numeric, nil] seconds to wait until there is one; nil and Float::INFINITY
      #   wait for ever
      # @return [Channel]
      # @raise [Errno::ENOENT] if there is none, and the timeout is 0
      # @raise [TimeoutError] if there is none after that time
      # @raise [ArgumentError] if it is an array's, all ends are in use, or there is a history and
      #   it is no broadcast
      # @raise [StaleHandleError] if the segment of the handle is another's now
      # @example
      #   scores = Shmarray::Channel.create("scores", :int64, [1], mode: :broadcast)
      #   [3, 5, 8].each { |score| scores.loan { |a| a[0] = score } }
      #   late = Shmarray::Channel.open("scores", history: 2)
      #   scores.close
      #   late.map { |a| a[0] } # => [5, 8]
      def open(handle_or_name, receive: true, history: 0, timeout: 0)
        earlier = counted(:history, history)
        raise ArgumentError, "invalid history: without receive there is none" if
          earlier.positive? && !receive
        return opened(handle_or_name, receive, earlier, nil) if Waits.limit(timeout)&.zero?

        Waits.in_steps(timeout, "there was no channel #{handle_or_name} in that time") do |step|
          opened(handle_or_name, receive, earlier, step)
        end
      end

      private :made, :opened

      private

      def counted(what, number)
        return number if number.is_a?(Integer) && number.between?(0, 0xffff)

        raise ArgumentError, "invalid #{what}: #{number.inspect}"
      end
    end

    # @!method name
    #   @return [String]
    # @!method handle
    #   Returns a line of text by which any process opens this channel and no other, also if its
    #   name was removed and taken again. It does not keep the channel: some process must have it
    #   open until another has opened it.
    #   @return [String]
    #   @example
    #     frames = Shmarray::Channel.create("frames", :uint8, [480, 640])
    #     Shmarray::Channel.open(frames.handle).name # => "frames"
    # @!method shape
    #   @return [::Array<Integer>, nil] that of a message, or the largest; nil if they are handles
    # @!method dtype
    #   @return [String, nil] that of a message; nil if they are handles
    # @!method slots
    #   @return [Integer]
    # @!method mode
    #   @return [:queue, :broadcast, :latest]
    # @!method follower?
    #   @return [Boolean] whether the channel is another user's, whose messages are copied
    # @!method sender_died?
    #   @return [Boolean] whether the stream, when its end was seen, had ended because the last
    #     sender died without closing
    # @!method closed?
    #   @return [Boolean]

    # @!method close
    #   Ends this process's part: the other side sees the end of the stream after what was sent.
    #   @return [nil]

    # @!method fileno
    #   @return [Integer] an fd that is readable while {#receive} would not wait. A receive that
    #     finds nothing makes it unreadable. The channel owns it, and a thread of the library sets
    #     it.

    # Takes a slot, and publishes it at the end of the block. If the block raises or is left, the
    # slot is given back and nobody receives anything.
    #
    # @param timeout [Numeric, nil] seconds; nil waits for ever
    # @param shape [::Array<Integer>, nil] that of this message, in a channel of varying shapes
    # @param meta [String] at most 64 bytes for the receiver
    # @yieldparam array [Array] its elements are what the slot's last message left; closed at the
    #   end of the block, like its views
    # @return [Integer] the sequence number of the message
    # @raise [TimeoutError] if no slot was free in that time; after a wait it says which processes
    #   have the slots
    # @raise [Full] if none is, and the channel was created with +when_full: :error+
    # @raise [ArgumentError] if the shape does not fit or the metadata is too long
    # @raise [IOError] if the channel is closed
    def loan(timeout: nil, shape: nil, meta: "", &block)
      raise LocalJumpError, "no block given" unless block_given? # `block` would make a Proc

      Waits.limit(timeout) if timeout
      lend_within(shape, 0, meta, &block) || wait_and_lend(timeout, shape, meta, &block)
    end

    # Sends a copy of an array; in a channel of handles the array itself.
    #
    # @param array [Array, Numo::NArray]
    # @param timeout [Numeric, nil] seconds; nil waits for ever
    # @param meta [String] at most 64 bytes for the receiver
    # @return [self]
    # @raise as for {#loan}; [TypeError] for another dtype
    def send_array(array, timeout: nil, meta: "")
      Waits.in_steps(timeout, NO_SLOT, self) { |step| send_within(array, meta, step) }
      self
    end

    # Receives the next message, and gives its slot back at the end of the block. Of the latest
    # value it is the value as it is now, whether it was received before or not: {#wait_newer} waits
    # for the next.
    #
    # @param timeout [Numeric, nil] seconds; nil waits for ever
    # @yieldparam array [Array] in its slot; closed at the end of the block, like its views
    # @yieldparam message [Delivery] its metadata, and what keeps or copies the array
    # @return [Object] the block's
    # @raise [TimeoutError] if no message came in that time
    # @raise [EOFError] if no process sends any more and all was received
    # @raise [IOError] if the channel is closed
    def receive(timeout: nil, &block)
      raise LocalJumpError, "no block given" unless block

      Waits.limit(timeout) if timeout
      form = form_for(block)
      result = receive_now(form, NOTHING, &block)
      NOTHING.equal?(result) ? wait_and_receive(timeout, form, &block) : result
    end

    # Waits until the latest value is newer than the one with a sequence number.
    #
    # @param sequence [Integer, nil] nil waits until there is a value
    # @param timeout [Numeric, nil] seconds; nil waits for ever
    # @return [Boolean] whether there is one; false after that time
    # @raise [EOFError] if no process sends any more
    # @raise [ArgumentError] if the channel's mode is not +:latest+
    # @example
    #   pose = Shmarray::Channel.create("pose", :float64, [3], mode: :latest)
    #   pose.loan { |a| a.fill(0) }
    #   sequence = pose.receive { |_, message| message.sequence }
    #   pose.wait_newer(sequence, timeout: 0) # => false
    def wait_newer(sequence = nil, timeout: nil)
      outcome = Waits.in_steps(timeout, NO_NEWER) { |step| newer_within(sequence, step) }
      outcome == true || raise(EOFError, outcome)
    rescue TimeoutError
      false
    end

    # Receives until every sender has closed or died; {#sender_died?} tells which. Of the latest
    # value it receives each that is newer. Without a block it returns an Enumerator, which gives
    # copies.
    #
    # @yieldparam array [Array] as for {#receive}
    # @yieldparam message [Delivery]
    # @return [self, Enumerator]
    def each(&block)
      return to_enum unless block

      form = form_for(block)
      latest = mode == :latest
      last = nil
      until last.is_a?(String)
        last = latest ? receive_newer(last, form, &block) : receive_one(nil, form, &block)
      end
      self
    end

    # The messages in their slots, for methods of Enumerable that keep none of them.
    # @private
    InPlace = Struct.new(:channel) do
      include Enumerable

      def each
        channel.each { |array| yield array } # rubocop:disable Style/ExplicitBlockArgument
      end
    end
    private_constant :InPlace

    %i[all? any? collect count each_with_index each_with_object filter_map flat_map inject map none?
       reduce sum].each do |name|
      define_method(name) do |*arguments, &block|
        block ? InPlace.new(self).public_send(name, *arguments, &block) : super(*arguments)
      end
    end

    # Hands an end over to another process, as one hands an end of a pipe to a child. It counts from
    # now on, until that process has opened it by the handle, or until all copies of the IO are
    # closed; the other process has one until then. Without it, a channel that is closed here before
    # the child has opened it has ended.
    #
    # @return [::Array(String, IO)] the handle, and what holds the end
    # @raise [ArgumentError] if all ends are in use
    # @example
    #   reader = Shmarray::Channel.create("results", :int64, [1])
    #   sender = Shmarray::Channel.open("results")
    #   handle, io = sender.hand_over
    #   fork do
    #     mine = Shmarray::Channel.open(handle)
    #     3.times { |number| mine.loan { |a| a[0] = number } }
    #     mine.close
    #   end
    #   [sender, io].each(&:close)
    #   reader.map { |a| a[0] } # => [0, 1, 2]
    def hand_over
      handle, fd = handed_over
      [handle, IO.for_fd(fd)]
    end

    # Returns whether a receive would not wait, after at most so many seconds. Of the latest value:
    # whether this channel has not received it yet. So it is for {#fileno} and {#to_io}, too.
    # @param timeout [Numeric, nil] nil waits for ever
    # @return [Boolean]
    def ready?(timeout = 0)
      limit = Waits.limit(timeout)
      return true if ready_within(0)
      return false if limit&.zero?

      begin
        Waits.in_steps(timeout, NO_MESSAGE) { |step| ready_within(step) }
      rescue TimeoutError
        false
      end
    end

    # Returns an IO for IO.select and fiber schedulers: readable if {#receive} would not wait.
    # @return [IO]
    def to_io
      fd = fileno # another one in a forked child
      return @to_io if @fd_of_io == fd

      @fd_of_io = fd
      @to_io = IO.for_fd(fd, autoclose: false).dup # stays open if another fiber closes the channel
    end

    # @return [String]
    def inspect
      closed? ? "#<#{self.class} closed>" : "#<#{self.class} #{name.inspect}>"
    end

    NOTHING = Object.new.freeze
    MOST_FORMS = 100
    private_constant :OF_NUMO, :NO_SLOT, :NO_MESSAGE, :NO_NEWER, :NOTHING, :MOST_FORMS, :Block,
                     :ARRAY, :ARRAY_AND_MESSAGE, :COPY

    private

    def wait_and_lend(timeout, shape, meta, &block)
      if Waits.scheduled? # the block must run in this fiber
        return Waits.until(timeout, NO_SLOT, self) do |left|
          lend_within(shape, 0, meta, &block) || (Waits.aside(left) { |s| free_within(s) } && nil)
        end
      end
      Waits.in_steps(timeout, NO_SLOT, self) { |step| lend_within(shape, step, meta, &block) }
    end

    def wait_and_receive(timeout, form, &block)
      result = nil
      outcome = receive_one(timeout, form) do |array, message|
        result = form == ARRAY_AND_MESSAGE ? block.call(array, message) : block.call(array)
      end
      outcome.is_a?(String) ? raise(EOFError, outcome) : result
    end

    # Receives one message for the block. Returns its sequence number; or, when the stream has
    # ended, the text that says how. With a fiber scheduler, a fiber that waits for a message lets
    # the others run.
    def receive_one(timeout, form, &block)
      if Waits.scheduled?
        Waits.until(timeout, NO_MESSAGE) do |left|
          receive_within(0, form, &block) || (to_io.wait_readable(left) && nil)
        end
      else
        Waits.in_steps(timeout, NO_MESSAGE) { |step| receive_within(step, form, &block) }
      end
    end

    # Receives the latest value once it is newer than the last. Returns as {#receive_one} does.
    def receive_newer(last, form, &block)
      newer = Waits.in_steps(nil, NO_NEWER) { |step| newer_within(last, step) }
      newer == true ? receive_one(nil, form, &block) : newer
    end

    # What a block gets: lambdas count their arguments.
    def form_for(block)
      if block.lambda?
        return block.arity == 1 || !block.source_location ? ARRAY : ARRAY_AND_MESSAGE
      end

      code = RubyVM::InstructionSequence.of(block) # one object for all blocks of one place
      (@forms ||= {}.compare_by_identity)[code] ||= form_for_block(code, block)
    end

    # Ruby's own blocks, such as those of Enumerable's methods, have no code and keep what they get.
    # For a message that the block does not take no object is made.
    def form_for_block(code, block)
      return COPY unless code

      @forms.clear if @forms.size >= MOST_FORMS # blocks of texts that were evaluated
      parameters = block.parameters
      takes_array = parameters.empty? || (parameters.size == 1 && parameters[0][0] == :opt)
      takes_array ? ARRAY : ARRAY_AND_MESSAGE
    end
  end
end
