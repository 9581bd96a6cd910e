//! The operations of the table: each function prepares one, and returns what is traced.

use std::cell::RefCell;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::time::Duration;

use shmarray::allocator::{self, Offer};
use shmarray::{Access, Array, Error, Options, Pipe, Received, Sent};

use crate::operations::Traced;
use crate::process::{start, wait};
use crate::stage::{Kept, NEW, NEW_FILE, Stage, new, options};
use crate::support::POOL;

pub(crate) fn hold(handles: &[String]) -> Vec<Array> {
    handles.iter().map(|handle| Array::attach(handle, Access::ReadWrite).unwrap()).collect()
}

pub(crate) fn create(bytes: u64, options: Options) -> Traced {
    Box::new(move || vec![new(bytes, &options).unwrap()].into())
}

pub(crate) fn attach(handle_or_name: String, access: Access) -> Traced {
    Box::new(move || vec![Array::attach(&handle_or_name, access).unwrap()].into())
}

pub(crate) fn close(handles: &[String]) -> Traced {
    let arrays = hold(handles);
    Box::new(move || {
        drop(arrays);
        Kept::default()
    })
}

pub(crate) fn sweep() -> Traced {
    Box::new(|| {
        shmarray::sweep().unwrap();
        Kept::default()
    })
}

/// The name may be gone: another process, if there is one, was faster or is stopped with the name's
/// lock.
pub(crate) fn unlink(name: &'static str) -> Traced {
    Box::new(move || match shmarray::unlink(name) {
        Ok(()) | Err(Error::NameNotFound { .. }) => Kept::default(),
        Err(error) if error.os_errno() == Some(libc::EAGAIN) => Kept::default(),
        Err(error) => panic!("unlink: {error}"),
    })
}

/// Both processes hold afterwards.
pub(crate) fn fork(handles: &[String]) -> Traced {
    fork_holding(hold(handles))
}

fn fork_holding(arrays: Vec<Array>) -> Traced {
    Box::new(move || {
        forked();
        arrays.into()
    })
}

/// The fork freezes what the process has alone.
pub(crate) fn freeze(handle: &str) -> Traced {
    fork_holding(vec![attached(handle, Access::Owned)])
}

/// Owns what was attached to copy on write, while others may have it or not.
pub(crate) fn own(handle: &str) -> Traced {
    let array = attached(handle, Access::CopyOnWrite);
    Box::new(move || {
        let _ = array.own();
        vec![array].into()
    })
}

fn attached(handle: &str, access: Access) -> Array {
    Array::attach(handle, access).unwrap()
}

/// Forks. Returns whether this is the child.
fn forked() -> bool {
    // SAFETY: a child of a fork has one thread, and in this test its parent has no other one whose
    // locks it could need.
    match unsafe { libc::fork() } {
        -1 => panic!("fork: {}", std::io::Error::last_os_error()),
        child => child == 0,
    }
}

/// The child uses the library.
pub(crate) fn fork_and_create(handles: &[String]) -> Traced {
    let mut arrays = hold(handles);
    Box::new(move || {
        if forked() {
            drop(arrays.pop());
            arrays.extend([NEW, NEW_FILE].map(|bytes| new(bytes, &options("")).unwrap()));
        }
        arrays.into()
    })
}

/// Exits with exit handlers, while everything is still held.
pub(crate) fn end(handles: &[String]) -> Traced {
    let arrays = hold(handles);
    Box::new(move || {
        std::mem::forget(arrays);
        std::process::exit(0)
    })
}

/// Exits while a message waits in a pipe of which only this process has the ends, and a handle that
/// was sent out of band has not arrived.
pub(crate) fn end_with_messages(stage: &Stage) -> Traced {
    let arrays = hold(&[stage.handle("given"), stage.handle("given cell")]);
    let (here, there) = Pipe::pair().unwrap();
    send_all(&here, &arrays);
    arrays[1].handle_to_send().unwrap();
    drop(arrays);
    Box::new(move || {
        std::mem::forget((here, there));
        std::process::exit(0)
    })
}

/// Returns the array, checked, or nothing if it was gone. Any other error fails.
pub(crate) fn if_there(attached: shmarray::Result<Array>) -> Kept {
    match attached {
        Ok(array) => vec![array].into(),
        Err(Error::SegmentNotFound { .. } | Error::NameNotFound { .. }) => Kept::default(),
        Err(error) => panic!("attach: {error}"),
    }
}

pub(crate) fn attach_if_there(stage: &Stage, what: &str) -> Traced {
    let handle = stage.handle(what);
    Box::new(move || if_there(Array::attach(&handle, Access::ReadWrite)))
}

/// Returns the array, or nothing if another process has the name.
pub(crate) fn if_free(created: shmarray::Result<Array>) -> Kept {
    match created {
        Ok(array) => vec![array].into(),
        Err(Error::NameExists { .. }) => Kept::default(),
        Err(error) => panic!("create: {error}"),
    }
}

/// Uses the library, so that the operation is not the first use.
pub(crate) fn warm_up() {
    drop([NEW, NEW_FILE].map(|bytes| new(bytes, &options("")).unwrap()));
}

/// Runs an operation with a pool in this process, in which a used slab lies.
pub(crate) fn with_pool(limit: &str, operation: impl FnOnce() -> Traced) -> Traced {
    // SAFETY: changing the environment needs a process in which nothing reads it, and no other
    // thread of this one does.
    unsafe { std::env::set_var(POOL, limit) };
    warm_up();
    operation()
}

/// Runs an operation with an empty pool in this process.
pub(crate) fn with_empty_pool(limit: &str, operation: impl FnOnce() -> Traced) -> Traced {
    // SAFETY: changing the environment needs a process in which nothing reads it, and no other
    // thread of this one does.
    unsafe { std::env::set_var(POOL, limit) };
    operation()
}

/// The slabs in the pool are decommitted.
pub(crate) fn create_where_it_was_decommitted(bytes: u64) -> Traced {
    let mut other = start(|line| {
        shmarray::sweep().unwrap();
        line.tell("swept");
    });
    other.line.hear().unwrap();
    wait(other.pid);
    create(bytes, options(""))
}

fn another_lets_go_last(array: Array) {
    let handle = array.handle();
    let mut other = start(|line| {
        let held = Array::attach(&handle, Access::ReadWrite).unwrap();
        line.tell("holds");
        let _ = line.hear();
        drop(held);
    });
    other.line.hear().unwrap();
    drop(array);
    other.line.tell("end");
    wait(other.pid);
}

/// Another process has freed what is pooled.
pub(crate) fn create_where_another_freed_all() -> Traced {
    another_lets_go_last(new(NEW_FILE, &options("")).unwrap());
    create(NEW_FILE, options(""))
}

/// Drops an array that this process made. Its slab stays in the pool.
pub(crate) fn close_new(bytes: u64) -> Traced {
    let array = new(bytes, &options("")).unwrap();
    Box::new(move || {
        drop(array);
        Kept::default()
    })
}

/// Attaches through a cached mapping.
pub(crate) fn attach_again(handle: String, access: Access) -> Traced {
    drop(Array::attach(&handle, access).unwrap());
    attach(handle, access)
}

/// Makes that many arrays in cells, and drops all but the first.
pub(crate) fn close_cells(count: usize) -> Traced {
    let mut arrays: Vec<_> = (0..count).map(|_| new(NEW, &options("")).unwrap()).collect();
    Box::new(move || {
        arrays.truncate(1);
        arrays.into()
    })
}

/// Creates in a cell of a slab that this process has: never used, or freed by this process before.
pub(crate) fn create_in_cell(there: usize, freed: usize) -> Traced {
    let mut arrays: Vec<_> = (0..there + freed).map(|_| new(NEW, &options("")).unwrap()).collect();
    arrays.truncate(there);
    Box::new(move || {
        arrays.push(new(NEW, &options("")).unwrap());
        arrays.into()
    })
}

/// Creates in a cell that another process was the last to hold, so that only a search finds it.
pub(crate) fn create_where_another_freed() -> Traced {
    let mut arrays: Vec<_> = (0..4).map(|_| new(NEW, &options("")).unwrap()).collect();
    another_lets_go_last(arrays.remove(1));
    Box::new(move || {
        arrays.push(new(NEW, &options("")).unwrap());
        arrays.into()
    })
}

/// Sends arrays that the sender drops: the message holds them.
pub(crate) fn send(stage: &Stage, whats: &[&str]) -> Traced {
    let arrays = hold(&whats.iter().map(|what| stage.handle(what)).collect::<Vec<_>>());
    let end = stage.end(false);
    Box::new(move || {
        send_all(&end, &arrays);
        drop(arrays);
        Kept::default()
    })
}

fn send_all(end: &Pipe, arrays: &[Array]) {
    let arrays: Vec<_> = arrays.iter().collect();
    assert_eq!(end.send(b"a message", &arrays, None).unwrap(), Sent::Sent);
}

/// Sends so many messages that the next finds no entry in the cell.
pub(crate) fn send_by_link(stage: &Stage) -> Traced {
    let arrays = hold(&[stage.handle("given cell")]);
    let end = stage.end(false);
    (0..18).for_each(|_| send_all(&end, &arrays));
    Box::new(move || {
        send_all(&end, &arrays);
        drop(arrays);
        Kept::default()
    })
}

/// Memory of the library's allocator, which holds zeros.
fn allocated() -> NonNull<u8> {
    allocator::allocate(NEW_FILE as usize, true).unwrap()
}

/// Allocates. Where something is idle no step of it is shared.
pub(crate) fn allocate() -> Traced {
    Box::new(|| {
        // Where a call fails there is none, and the caller has another allocator.
        let _ = allocator::allocate(NEW_FILE as usize, true);
        Kept::default()
    })
}

fn free(start: NonNull<u8>) -> Traced {
    let start = start.as_ptr() as usize;
    Box::new(move || {
        // SAFETY: nothing else refers to it.
        assert!(unsafe { allocator::free(NonNull::new(start as *mut u8).unwrap()) });
        Kept::default()
    })
}

/// Frees, and gives what is idle back.
pub(crate) fn free_all() -> Traced {
    let free = free(allocated());
    Box::new(move || {
        free();
        allocator::free_idle();
        Kept::default()
    })
}

/// Sends what was allocated: it is moved if it was freed, else copied; or moved while it is in use,
/// and freed then.
pub(crate) fn move_allocated(stage: &Stage, is_freed: bool, is_in_use: bool) -> Traced {
    let end = stage.end(false);
    let start = allocated();
    let address = start.as_ptr() as usize;
    let offer = (!is_in_use).then(|| Offer::at(address).unwrap());
    let free = free(start);
    Box::new(move || {
        let part = |array: Array| array.view(&[NEW_FILE], &[1], 0).unwrap();
        let Some(mut offer) = offer else {
            // SAFETY: nothing is stored there any more.
            let moved = unsafe { allocator::move_in_use(address) }.unwrap();
            send_all(&end, &[part(moved.unwrap())]);
            return free();
        };
        if is_freed {
            free();
        }
        let taken = offer.take();
        assert_eq!(taken.is_some(), is_freed);
        send_all(&end, &[part(taken.unwrap_or_else(|| offer.copy(NEW_FILE as usize).unwrap()))]);
        Kept::default()
    })
}

/// The fork freezes what is live, idle and offered. Both sides give it back.
pub(crate) fn fork_with_allocated() -> Traced {
    let (live, idle, offered) = (allocated(), allocated(), allocated());
    free(idle)();
    let offer = Offer::at(offered.as_ptr() as usize);
    let frees = [live, offered].map(free);
    Box::new(move || {
        forked();
        for free in frees {
            free();
        }
        drop(offer);
        allocator::free_idle();
        Kept::default()
    })
}

/// Receives everything that was sent, unless another process was faster.
pub(crate) fn receive(stage: &Stage) -> Traced {
    let end = stage.end(true);
    Box::new(move || match end.receive(Some(Duration::ZERO)).unwrap() {
        Received::Message(message) => {
            let count = message.descriptors().len();
            let arrays = (0..count).map(|index| message.array(index, Access::ReadWrite).unwrap());
            arrays.collect::<Vec<_>>().into()
        }
        _ => Kept::default(),
    })
}

/// Receives a message and drops it.
pub(crate) fn receive_in_vain(stage: &Stage) -> Traced {
    let end = stage.end(true);
    Box::new(move || {
        drop(end.receive(Some(Duration::ZERO)).unwrap());
        Kept::default()
    })
}

thread_local! {
    /// A handle that was sent out of band and has not arrived yet: its message holds as long as
    /// this family lives.
    static UNUSED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Discards the handle after an operation that failed.
pub(crate) fn discard_what_is_unused() {
    if let Some(text) = UNUSED.take() {
        shmarray::discard(&text).unwrap();
    }
}

/// Discards a handle that was sent out of band, which holds until then.
pub(crate) fn discard(stage: &Stage, what: &str) -> Traced {
    let arrays = hold(&[stage.handle(what)]);
    Box::new(move || {
        let text = arrays[0].handle_to_send().unwrap();
        drop(arrays);
        UNUSED.set(Some(text.clone()));
        shmarray::discard(&text).unwrap();
        UNUSED.take();
        Kept::default()
    })
}

/// Sends a handle out of band, and attaches it.
pub(crate) fn send_to_oneself(stage: &Stage, what: &str) -> Traced {
    let arrays = hold(&[stage.handle(what)]);
    Box::new(move || {
        let text = arrays[0].handle_to_send().unwrap();
        drop(arrays);
        UNUSED.set(Some(text.clone()));
        let array = Array::attach(&text, Access::ReadOnly).unwrap();
        UNUSED.take();
        vec![array].into()
    })
}

/// Makes this process make no unnamed files from now on, as on a file system that has none.
pub(crate) fn without_unnamed_files(traced: Traced) -> Traced {
    let jump = |code: u32, value: u32, no: u8| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: no,
        k: value,
    };
    let load = |offset: u32| jump(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset, 0);
    let is = libc::BPF_JMP | libc::BPF_K;
    let answer = |value: u32| jump(libc::BPF_RET | libc::BPF_K, value, 0);
    const UNNAMED: u32 = (libc::O_TMPFILE & !libc::O_DIRECTORY) as u32;
    let mut filter = [
        load(0), // the call's number
        jump(is | libc::BPF_JEQ, libc::SYS_openat as u32, 3),
        load(32), // its third argument
        jump(is | libc::BPF_JSET, UNNAMED, 1),
        answer(libc::SECCOMP_RET_ERRNO | libc::EOPNOTSUPP as u32),
        answer(libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the call cannot touch this process's memory, because all of its arguments are plain
    // numbers.
    unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    // SAFETY: the program is valid for the call, because it points to a filter of as many
    // instructions as it says, which outlives it.
    let set =
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    assert_eq!(set, 0, "seccomp: {}", std::io::Error::last_os_error());
    traced
}

pub(crate) fn close_held_lock_only() -> Traced {
    let array = new(NEW, &options("new").mode(0o644)).unwrap();
    Box::new(move || {
        drop(array);
        Kept::default()
    })
}

/// Stores to a reserved word of a header, by an instruction that is not core's.
pub(crate) fn store_unannounced(stage: &Stage) -> Traced {
    const RESERVED: usize = 248;
    let id = shmarray::Descriptor::parse(&stage.handle("kept")).unwrap().segment.id;
    let path = stage.directory.join(format!("shmarray-{id}"));
    let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
    let word = map(&file).wrapping_add(RESERVED / 8);
    Box::new(move || {
        // SAFETY: the address is valid for a store, because its page was mapped writable here and
        // is never unmapped.
        unsafe { word.write_volatile(1) };
        Kept::default()
    })
}

fn map(file: &std::fs::File) -> *mut u64 {
    let (anywhere, writable) = (std::ptr::null_mut(), libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: a new mapping replaces no memory in use, because the kernel chooses its address.
    let start =
        unsafe { libc::mmap(anywhere, 4096, writable, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    assert_ne!(start, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
    start.cast()
}
