# frozen_string_literal: true

require "io/wait" # IO#wait_readable, which Ruby 3.1 does not have by itself
require "shmarray/waits"

module Shmarray
  # A bounded queue of arrays in shared memory. Any process opens it by its name or its handle.
  #
  # A sender takes a slot on {#loan}, fills it in place and publishes it; a receiver looks at the
  # slot itself. Nothing is copied. Programs in other languages open the same channel. Each message
  # goes to one receiver (+mode: :queue+) or to all (+:broadcast+), in the order of each sender. A
  # process that is killed costs the others the message that it had, and nothing else.
  #
  # A channel lives while anyone has it open. In a forked child it is opened anew.
  #
  # @example The other end may be in another process
  #   camera = Shmarray::Channel.create("frames", :float32, [2, 3], slots: 4)
  #   viewer = Shmarray::Channel.open("frames")
  #   camera.loan(meta: "left") { |frame| frame.fill(0.5) }
  #   camera.close
  #   viewer.each { |frame| frame.sum } # ends, since every sender has closed
  #   viewer.last.meta # => "left"
  class Channel
    include Enumerable

    # What is known of a message: +sequence+ (0 for the first of the channel), +time_ns+
    # (nanoseconds since 1970), +meta+ (the bytes that were sent beside it) and +missed+ (messages
    # that were dropped since the one before).
    MessageInfo = Struct.new(:sequence, :time_ns, :meta, :missed)

    class << self
      # Makes a channel whose messages are arrays of this dtype and shape.
      #
      # @param name [String] 1 to 64 of the characters +A-Z a-z 0-9 . _ -+
      # @param dtype [Symbol, String] as for {Array.create}
      # @param shape [Integer, ::Array<Integer>] elements in each dimension
      # @param slots [Integer] how many messages can be under way, at most 1023
      # @param mode [:queue, :broadcast] whether a message goes to one receiver or to each
      # @param when_full [:block, :drop_oldest, :error] what a sender does when all slots are taken:
      #   it waits; it drops the oldest message, and receivers are told how many they missed; or it
      #   raises {Full}
      # @param exist_ok [Boolean] whether an existing channel of this description is opened instead,
      #   with the `persist` and `file_mode` of its creator
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
      # @param timeout [Numeric, nil] seconds to wait until there is one; nil waits for ever
      # @return [Channel]
      # @raise [Errno::ENOENT] if there is none, and the timeout is 0
      # @raise [TimeoutError] if there is none after that time
      # @raise [ArgumentError] if it is an array's, or all ends are in use
      # @raise [StaleHandleError] if the segment of the handle is another's now
      def open(handle_or_name, receive: true, timeout: 0)
        return opened(handle_or_name, receive, nil) if timeout&.zero?

        Waits.in_steps(timeout, "there was no channel #{handle_or_name} in that time") do |step|
          opened(handle_or_name, receive, step)
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
    #   @return [:queue, :broadcast]
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

    # @return [MessageInfo, nil] what is known of the message that was received last
    attr_reader :last

    # Takes a slot, and publishes it at the end of the block. If the block raises or is left, the
    # slot is given back and nobody receives anything.
    #
    # @param timeout [Numeric, nil] seconds; nil waits for ever
    # @param shape [::Array<Integer>, nil] that of this message, in a channel of varying shapes
    # @param meta [String] at most 64 bytes for the receiver
    # @yieldparam array [Array] its elements are what the slot's last message left; closed at the
    #   end of the block
    # @return [Integer] the sequence number of the message
    # @raise [TimeoutError] if no slot was free in that time
    # @raise [Full] if none is, and the channel was created with +when_full: :error+
    # @raise [ArgumentError] if the shape does not fit or the metadata is too long
    # @raise [IOError] if the channel is closed
    def loan(timeout: nil, shape: nil, meta: "")
      loan = Waits.in_steps(timeout, NO_SLOT) { |step| lend_within(shape, step) }
      begin
        array = loan.array
        yield for_block(array)
        array.close
        loan.publish(meta)
      ensure
        array&.close
        loan.cancel
      end
    end

    # Sends a copy of an array; in a channel of handles the array itself.
    #
    # @param array [Array, Numo::NArray]
    # @param timeout [Numeric, nil] seconds; nil waits for ever
    # @param meta [String] at most 64 bytes for the receiver
    # @return [self]
    # @raise as for {#loan}; [TypeError] for another dtype
    def send_array(array, timeout: nil, meta: "")
      Waits.in_steps(timeout, NO_SLOT) { |step| send_within(array, meta, step) }
      self
    end

    # Receives the next message, and gives its slot back at the end of the block.
    #
    # @param timeout [Numeric, nil] seconds; nil waits for ever
    # @yieldparam array [Array] in its slot; closed at the end of the block
    # @return [Object] the block's
    # @raise [TimeoutError] if no message came in that time
    # @raise [EOFError] if no process sends any more and all was received
    # @raise [IOError] if the channel is closed
    def receive(timeout: nil, &block)
      hand_over(next_delivery(timeout), &block)
    end

    # Receives until every sender has closed or died; {#sender_died?} tells which. Without a block
    # it returns an Enumerator, whose arrays are closed when the next is asked for.
    #
    # @yieldparam array [Array]
    # @return [self, Enumerator]
    def each(&block)
      return to_enum unless block

      while (delivery = next_delivery_or_end)
        hand_over(delivery, &block)
      end
      self
    end

    # Returns whether a receive would not wait, after at most so many seconds.
    # @param timeout [Numeric, nil] nil waits for ever
    # @return [Boolean]
    def ready?(timeout = 0)
      Waits.in_steps(timeout, NO_MESSAGE) { |step| ready_within(step) }
    rescue TimeoutError
      false
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

    private_constant :NO_SLOT, :NO_MESSAGE

    private

    # With a fiber scheduler, a fiber that waits for a message lets the others run.
    def next_delivery(timeout)
      unless scheduled?
        return Waits.in_steps(timeout, NO_MESSAGE) { |step| receive_within(step) }
      end

      Waits.until(timeout, NO_MESSAGE) do |left|
        receive_within(0) || (to_io.wait_readable(left) && nil)
      end
    end

    def next_delivery_or_end
      next_delivery(nil)
    rescue EOFError
      nil
    end

    def hand_over(delivery)
      @last = MessageInfo.new(*delivery.info)
      array = delivery.array
      yield for_block(array)
    ensure
      array&.close
      delivery.release
    end

    def scheduled?
      Fiber.respond_to?(:current_scheduler) && Fiber.current_scheduler
    end

    # Returns the array as blocks get it.
    def for_block(array)
      array
    end
  end
end
