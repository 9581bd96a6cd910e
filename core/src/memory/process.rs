//! The ways into an operation, behind the handlers of forks, of the exit and of shortages.

use super::operation::{Awaited, Operation};
use super::sweep;
use crate::value::error::Result;

impl Operation {
    /// Enters an operation.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) in a process that a signal handler forked
    /// inside this library.
    pub(crate) fn enter() -> Result<Self> {
        #[cfg(linux_backend)]
        handlers::register_if_needed();
        Self::without_handlers()
    }

    /// Enters an operation that attaches something. The first one in a process sweeps.
    ///
    /// # Errors
    /// As for [`enter`](Self::enter).
    pub(crate) fn enter_to_attach() -> Result<Self> {
        let operation = Self::enter()?;
        sweep::at_first_use();
        Ok(operation)
    }

    /// Enters an operation that makes something. The first one in a process sweeps.
    ///
    /// # Errors
    /// As for [`enter`](Self::enter).
    pub(crate) fn enter_to_create() -> Result<Awaited> {
        let operation = Self::enter()?.awaited();
        sweep::at_first_create();
        Ok(operation)
    }
}

#[cfg(linux_backend)]
mod handlers {
    use std::sync::atomic::{AtomicBool, Ordering};

    use crate::memory::segment::{exit, fork};
    use crate::memory::sweep;
    use crate::system;

    static ARE_REGISTERED: AtomicBool = AtomicBool::new(false);

    /// Registers the handlers when the library is loaded, so that no fork comes before them, and no
    /// thread waits for a first use that another thread of the parent had begun.
    #[used]
    #[allow(unsafe_code)] // the linker puts it into the table of initial functions
    #[unsafe(link_section = ".init_array")]
    static AT_LOAD: extern "C" fn() = register;

    extern "C" fn register() {
        if !ARE_REGISTERED.swap(true, Ordering::Relaxed) {
            system::fork::on_fork_and_exit(fork::before, fork::in_parent, fork::in_child, at_exit);
            system::on_shortage(relieve);
        }
    }

    /// Registers the handlers if the linker dropped `AT_LOAD`, or if an earlier initial function
    /// of the program uses this library.
    pub(super) fn register_if_needed() {
        if !ARE_REGISTERED.load(Ordering::Relaxed) {
            register();
        }
    }

    /// Gives up address space, unless this thread has a lock that this would wait for.
    fn relieve() -> bool {
        let may = !system::is_orphaned() && !system::fork::is_inside();
        if may {
            sweep::give_up_address_space();
        }
        may
    }

    extern "C" fn at_exit() {
        if system::is_orphaned() || system::fork::is_inside() {
            // The state may be inconsistent, or a signal handler that calls `exit` would wait for
            // its own thread.
            return;
        }
        if system::close_unread() | system::leave_family() {
            sweep::of_unread();
        }
        sweep::at_exit(exit::leave_all());
    }
}
