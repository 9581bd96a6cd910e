//! The begin and the end of a process's use of shared memory: the handlers of forks and of the exit.

#[cfg(all(target_os = "linux", not(feature = "portable"), not(miri)))]
pub(crate) use handlers::begin;

/// Where nothing follows a fork or an exit there is nothing to begin.
#[cfg(not(all(target_os = "linux", not(feature = "portable"), not(miri))))]
#[allow(clippy::unnecessary_wraps, reason = "elsewhere it can fail")]
pub(crate) fn begin() -> crate::error::Result<()> {
    Ok(())
}

#[cfg(all(target_os = "linux", not(feature = "portable"), not(miri)))]
mod handlers {
    use std::sync::atomic::{AtomicBool, Ordering};

    use crate::error::Result;
    use crate::segment::{exit, fork};
    use crate::{sweep, sys};

    static ARE_REGISTERED: AtomicBool = AtomicBool::new(false);

    /// The handlers are registered when the library is loaded, so that no fork comes before them
    /// and no thread waits for a first use that another thread of the parent had begun.
    #[used]
    #[allow(unsafe_code)] // the linker puts this pointer to a function into the table of those
    #[unsafe(link_section = ".init_array")]
    static AT_LOAD: extern "C" fn() = register;

    extern "C" fn register() {
        if !ARE_REGISTERED.swap(true, Ordering::Relaxed) {
            sys::fork::on_fork_and_exit(fork::before, fork::in_parent, fork::in_child, at_exit);
        }
    }

    extern "C" fn at_exit() {
        if sys::is_orphaned() || sys::fork::is_inside() {
            // Nothing is whole, or a signal handler that ends the process would wait for itself.
            return;
        }
        sweep::at_exit(exit::leave_all());
    }

    /// Comes before each operation that makes or attaches something.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) in a process that a signal handler forked
    /// inside of this library.
    pub(crate) fn begin() -> Result<()> {
        if !ARE_REGISTERED.load(Ordering::Relaxed) {
            register(); // a linker left AT_LOAD out
        }
        sys::refuse_orphan()
    }
}
