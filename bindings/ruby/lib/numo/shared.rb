# frozen_string_literal: true

# Numo arrays in shared memory.
#
#   require "numo/shared"
#   a = Numo::Shared.new(Numo::Int32, [2, 3, 3])
#   fork { Numo::Shared.attach(Numo::Shared.handle(a[0, true, true])).fill(7) }
#
# Numo::NArray comes from numo-narray or numo-narray-alt. The gem depends on neither, since
# the two exclude each other.

begin
  require "numo/narray" # before our extension: it looks for Numo's classes
rescue LoadError => error
  raise unless error.path == "numo/narray"

  raise LoadError, "numo/shared needs Numo::NArray: install the gem numo-narray or the gem numo-narray-alt"
end

require "shmarray"
Shmarray.send(:bind_numo)
require "numo/shared/guards"
require "numo/shared/reference"
Numo::Shared.private_class_method :copied?, :copy_to, :shareable?

Numo.autoload :Parallel, "numo/parallel"
