# frozen_string_literal: true

module Numo
  module Parallel
    # The private methods of the gem that {Parallel} uses, each with its reason. Everything else
    # that it uses is public: test/parallel/internals_test.rb compares both.
    module Internals
      METHODS = {
        Shmarray => [
          # Its own part of the extension, ext/shmarray/src/parallel.
          :arrays_in?, :extended?, :job_counter, :process_fd, :write_some,
          # `sweep` also empties the pool, and raises. This looks only for processes that have died.
          :sweep_dead,
          # The parent reuses the memory of results that the program no longer references.
          :reuse_dead,
          # Where shared memory is full, the processes of a call ask each other to collect, and
          # arrays go in band while little of it is free.
          :make_room, :others=, :others_make_room, :room?,
          # A copy that travels in a message is the receiver's alone, as what Marshal loads is.
          :own_array,
          # What a worker dumps by a handle, such as a list, is held until it is loaded, even if the
          # worker ends before: its family goes on.
          :begin_family
        ],
        Shared => [
          # `share` always copies to new memory, and raises where shared memory is full.
          :copy_if_room, :copy_to,
          # Containers are searched for arrays, and an array without memory is refused by name.
          :shareable?, :unfilled?
        ]
      }.freeze

      METHODS.each do |owner, names|
        names.each do |name|
          define_singleton_method(name) { |*arguments| owner.send(name, *arguments) }
        end
      end
    end
    private_constant :Internals
  end
end
