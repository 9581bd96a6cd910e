//! Handlers of forks, of the exit and of shortages, and the check before each operation.

#[cfg(linux_backend)]
pub(crate) use handlers::begin;

/// Does nothing: this backend has no handlers of forks and of the exit.
#[cfg(not(linux_backend))]
#[allow(clippy::unnecessary_wraps, reason = "elsewhere it can fail")]
pub(crate) fn begin() -> crate::value::error::Result<()> {
    Ok(())
}

#[cfg(linux_backend)]
mod handlers {
    use std::sync::atomic::{AtomicBool, Ordering};

    use crate::memory::segment::{exit, fork};
    use crate::memory::sweep;
    use crate::system;
    use crate::value::error::Result;

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

    /// Begins an operation that makes or attaches something.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) in a process that a signal handler forked
    /// inside this library.
    pub(crate) fn begin() -> Result<()> {
        if !ARE_REGISTERED.load(Ordering::Relaxed) {
            register(); // the linker dropped AT_LOAD
        }
        system::refuse_orphan()
    }
}
