//! Stops a process at every step it makes: a system call, or a store to shared memory.
//!
//! The kernel itself stops it before and after each system call, so none can be missed. Stores are
//! announced by core with the cfg `shmarray_steps`; `watch` finds one that is not.

use std::fmt;
use std::io;

use crate::call_names::call_name;
use crate::process::{Pid, is_started, said, wait};

/// A system call's number and arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) number: i64,
    pub(crate) arguments: [u64; 6],
}

/// Where a process has stopped.
pub(crate) enum Stop {
    Enter(Call),
    Leave(Call),
    /// It was about to touch this address, which is protected.
    Fault(u64),
    /// The process says that the traced part is over.
    End,
    /// It has exited, or was killed. Its status.
    Gone(i32),
    /// It is in a call that waits for another process, and has not stopped.
    Waits(Call),
}

/// A step that is counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Enter(i64),
    Leave(i64),
    /// It sleeps in a call, until another process does something.
    Wait(i64),
    /// An announced store: before or after it, and at which byte of its page.
    Store {
        before: bool,
        offset: u64,
        bytes: u64,
    },
}

/// As core/src/header/control/word.rs announces.
const MARK: u64 = u64::from_le_bytes(*b"shmarray");
const BEFORE: u64 = 1;
const AFTER: u64 = 2;
/// Used by this test alone.
const END: u64 = 3;
const PAGE: u64 = 4096;

impl Stop {
    /// Returns `None` for what is no step: the end of an announcement; and the questions of an exit
    /// to each fd that can be read, because that depends on what other processes have written.
    pub(crate) fn step(&self) -> Option<Step> {
        match self {
            Self::Enter(call) | Self::Leave(call) if call.number == libc::SYS_getsockopt => None,
            Self::Enter(call) => call.announced().or(Some(Step::Enter(call.number))),
            Self::Leave(call) if call.announced().is_none() => Some(Step::Leave(call.number)),
            Self::Waits(call) => Some(Step::Wait(call.number)),
            _ => None,
        }
    }
}

impl Call {
    fn announced(&self) -> Option<Step> {
        let [mark, when, address, bytes, ..] = self.arguments;
        let announces =
            self.number == libc::SYS_getppid && mark == MARK && [BEFORE, AFTER].contains(&when);
        announces.then_some(Step::Store { before: when == BEFORE, offset: address % PAGE, bytes })
    }

    /// Returns the addresses of an announced store.
    pub(crate) fn announces(&self) -> Option<std::ops::Range<u64>> {
        let [_, _, address, bytes, ..] = self.arguments;
        matches!(self.announced(), Some(Step::Store { before: true, .. }))
            .then(|| address..address + bytes)
    }

    fn is_end(&self) -> bool {
        self.number == libc::SYS_getppid && self.arguments[..2] == [MARK, END]
    }

    /// Whether it may last until another process does something.
    fn may_wait(&self) -> bool {
        let waits = [
            libc::SYS_futex,
            libc::SYS_read,
            libc::SYS_recvfrom,
            libc::SYS_recvmsg,
            libc::SYS_ppoll,
        ];
        let waits_for_lock =
            libc::SYS_fcntl == self.number && self.arguments[1] == libc::F_OFD_SETLKW as u64;
        waits_for_lock || waits.contains(&self.number)
    }
}

/// A process that this thread traces.
pub(crate) struct Tracee {
    pub(crate) pid: Pid,
    inside: Option<Call>,
    runs: bool,
    /// A signal to pass on.
    signal: i32,
    /// The error that the call it is in shall fail with.
    error: Option<i32>,
    /// A child that it forked while it was traced, and that has not done anything yet.
    child: Option<Pid>,
    /// Whether it has not ended.
    pub(crate) is_there: bool,
}

impl Tracee {
    /// Attaches to a child that stops itself by [`begin`].
    pub(crate) fn attach(pid: Pid) -> Result<Self, String> {
        let status = wait(pid);
        if !libc::WIFSTOPPED(status) || libc::WSTOPSIG(status) != libc::SIGSTOP {
            return Err(format!("before the first step: {}", said(status)));
        }
        let options =
            libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_TRACEFORK | libc::PTRACE_O_EXITKILL;
        let tracee = Self::stopped(pid);
        tracee.request(libc::PTRACE_SETOPTIONS, options as usize).map_err(not_permitted)?;
        Ok(tracee)
    }

    fn stopped(pid: Pid) -> Self {
        Self { pid, inside: None, runs: false, signal: 0, error: None, child: None, is_there: true }
    }

    /// Returns the child that it forked, if it did: traced as well, and not yet begun.
    pub(crate) fn take_child(&mut self) -> Option<Self> {
        self.child.take().map(Self::stopped)
    }

    /// Takes it to the next system call, in or out.
    pub(crate) fn next(&mut self) -> Stop {
        loop {
            if !self.runs {
                self.resume(libc::PTRACE_SYSCALL);
            }
            let waiting = self.inside.filter(Call::may_wait);
            let status = match waiting {
                Some(_) => wait_unless_asleep(self.pid),
                None => Some(wait(self.pid)),
            };
            let Some(status) = status else {
                return Stop::Waits(waiting.expect("is in a call that may wait"));
            };
            self.runs = false;
            if let Some(stop) = self.stop_of(status) {
                return stop;
            }
        }
    }

    /// Executes one instruction, without a signal.
    pub(crate) fn instruction(&mut self) {
        self.signal = 0;
        self.resume(libc::PTRACE_SINGLESTEP);
        let status = wait(self.pid);
        assert_eq!(status >> 8, libc::SIGTRAP, "one instruction: {}", said(status));
        self.runs = false;
    }

    /// Makes it do a system call of the tracer's, between two of its own instructions.
    pub(crate) fn call(&self, number: i64, [first, second, third]: [u64; 3]) -> Result<(), String> {
        let before = self.registers();
        let call = libc::user_regs_struct {
            rip: call_instruction(),
            rax: number as u64,
            orig_rax: u64::MAX, // it is in no call that could be restarted
            rdi: first,
            rsi: second,
            rdx: third,
            ..before
        };
        self.set_registers(&call);
        self.request(libc::PTRACE_SINGLESTEP, 0).expect("a stopped tracee goes on");
        let status = wait(self.pid);
        assert_eq!(status >> 8, libc::SIGTRAP, "a call of ours: {}", said(status));
        let result = self.registers().rax as i64;
        self.set_registers(&before);
        if result >= 0 { Ok(()) } else { Err(format!("{}: error {}", call_name(number), -result)) }
    }

    fn registers(&self) -> libc::user_regs_struct {
        // SAFETY: zeros are a valid value, because the structure of libc consists of plain numbers
        // and null pointers.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        let got = self.request(libc::PTRACE_GETREGS, (&raw mut registers) as usize);
        got.expect("a stopped tracee has registers");
        registers
    }

    fn set_registers(&self, registers: &libc::user_regs_struct) {
        let set = self.request(libc::PTRACE_SETREGS, std::ptr::from_ref(registers) as usize);
        set.expect("a stopped tracee has registers");
    }

    fn stop_of(&mut self, status: i32) -> Option<Stop> {
        if !libc::WIFSTOPPED(status) {
            self.is_there = false;
            return Some(Stop::Gone(status));
        }
        match status >> 8 {
            stop if stop == libc::SIGTRAP | 0x80 => Some(self.call_stop()),
            stop if stop == libc::SIGTRAP | libc::PTRACE_EVENT_FORK << 8 => {
                self.child = Some(self.born());
                None
            }
            signal => {
                self.signal = signal;
                (signal == libc::SIGSEGV).then(|| Stop::Fault(self.fault()))
            }
        }
    }

    /// Returns the address that could not be used.
    fn fault(&self) -> u64 {
        // SAFETY: zeros are a valid value, because the structure of libc consists of plain numbers
        // and null pointers.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let got = self.request(libc::PTRACE_GETSIGINFO, (&raw mut info) as usize);
        got.expect("a signal says why");
        // SAFETY: the field of the union may be read, because the kernel sets the address for a
        // SIGSEGV, which this is.
        (unsafe { info.si_addr() }) as u64
    }

    fn call_stop(&mut self) -> Stop {
        let info = self.syscall_info();
        match info.kind {
            ENTRY => {
                let call = Call { number: info.number_or_result as i64, arguments: info.arguments };
                self.inside = Some(call);
                if call.is_end() { Stop::End } else { Stop::Enter(call) }
            }
            _ => {
                if let Some(error) = self.error.take() {
                    self.set_registers(&libc::user_regs_struct {
                        rax: -i64::from(error) as u64,
                        ..self.registers()
                    });
                }
                // A forked child leaves a call that it did not enter.
                Stop::Leave(
                    self.inside
                        .take()
                        .unwrap_or(Call { number: libc::SYS_clone, arguments: [0; 6] }),
                )
            }
        }
    }

    /// Returns the call that it is about to enter, or has entered.
    pub(crate) fn call_inside(&self) -> Option<Call> {
        self.inside
    }

    /// Makes the call that it is about to enter fail, whether or not it is done.
    pub(crate) fn fail_call(&mut self, error: i32, is_done: bool) {
        self.error = Some(error);
        if !is_done {
            self.set_registers(&libc::user_regs_struct { orig_rax: u64::MAX, ..self.registers() });
        }
    }

    fn born(&self) -> Pid {
        let mut pid: libc::c_ulong = 0;
        self.request(libc::PTRACE_GETEVENTMSG, (&raw mut pid) as usize)
            .expect("a forked child has an id");
        let pid = pid as Pid;
        is_started(pid);
        assert!(libc::WIFSTOPPED(wait(pid)), "a traced child starts stopped");
        pid
    }

    /// Returns the address of its next instruction.
    pub(crate) fn instruction_address(&self) -> u64 {
        self.syscall_info().instruction
    }

    fn syscall_info(&self) -> SyscallInfo {
        let mut info = SyscallInfo::default();
        // SAFETY: the request is allowed and writes in bounds: the pid is of a tracee of this
        // thread that has stopped, and the room has the size that is passed.
        let got = unsafe {
            libc::ptrace(GET_SYSCALL_INFO, self.pid, size_of::<SyscallInfo>(), &raw mut info)
        };
        assert!(got > 0, "PTRACE_GET_SYSCALL_INFO: {}", io::Error::last_os_error());
        info
    }

    fn resume(&mut self, how: u32) {
        let signal = std::mem::take(&mut self.signal);
        self.request(how, signal as usize).expect("a stopped tracee goes on");
        self.runs = true;
    }

    /// Does `kill -9` where it is stopped: the system call that it was about to enter does not
    /// happen.
    pub(crate) fn kill(&self) -> Result<(), String> {
        // SAFETY: the signal reaches no other process, because the pid is of a process of this test
        // that nobody has waited for.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
        let status = wait(self.pid);
        let killed = libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGKILL;
        if killed { Ok(()) } else { Err(format!("it was to die by SIGKILL, but {}", said(status))) }
    }

    /// Sends a signal to this thread of its process. It comes when the thread goes on.
    pub(crate) fn send_signal(&self, signal: libc::c_int) {
        // SAFETY: the call cannot touch this process's memory, because all of its arguments are
        // plain numbers.
        let sent = unsafe { libc::syscall(libc::SYS_tgkill, self.pid, self.pid, signal) };
        assert_eq!(sent, 0, "tgkill: {}", io::Error::last_os_error());
    }

    /// Lets it go on by itself.
    pub(crate) fn detach(&self) {
        self.request(libc::PTRACE_DETACH, 0).expect("a stopped tracee is let go");
    }

    fn request(&self, request: u32, data: usize) -> io::Result<()> {
        // SAFETY: the request is for a tracee of this thread, and where it takes `data` as a
        // pointer, the callers pass one to a structure of the right type.
        match unsafe { libc::ptrace(request, self.pid, 0usize, data) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }
}

/// Runs in the traced process: its steps count from here on.
pub(crate) fn begin() {
    // SAFETY: the call cannot touch this process's memory, because all of its arguments are plain
    // numbers.
    let traced = unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0usize, 0usize) };
    assert!(traced == 0, "{}", not_permitted(io::Error::last_os_error()));
    stop_this_thread();
}

/// Stops this thread and no other until its tracer lets it go on.
fn stop_this_thread() {
    // SAFETY: the call cannot touch memory, because it takes no arguments, and it cannot fail.
    let own = unsafe { libc::gettid() };
    // SAFETY: the call cannot touch this process's memory, because all of its arguments are plain
    // numbers.
    unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), own, libc::SIGSTOP) };
}

/// Runs in the traced process: its steps count to here.
pub(crate) fn end() {
    // SAFETY: the call cannot touch memory, because `getppid` takes no arguments and the kernel
    // ignores what is in the other registers.
    unsafe { libc::syscall(libc::SYS_getppid, MARK, END) };
}

fn not_permitted(error: io::Error) -> String {
    format!(
        "ptrace is not permitted here ({error}), so no crash could be tested: \
         allow it (docker: --cap-add=SYS_PTRACE)"
    )
}

/// Returns the address of a system call's instruction, which is the same in every fork of this
/// process.
fn call_instruction() -> u64 {
    let syscall = libc::syscall as *const () as *const u8;
    // SAFETY: the two bytes can be read, because they belong to a function of the C library, which
    // is mapped to be executed.
    let is_call = |address: &*const u8| unsafe { address.cast::<[u8; 2]>().read() } == [0x0f, 0x05];
    let found = (0..64).map(|offset| syscall.wrapping_add(offset)).find(is_call);
    found.expect("the C library's `syscall` has a system call") as u64
}

/// `struct ptrace_syscall_info`, which is the same on every machine.
#[repr(C)]
#[derive(Default)]
struct SyscallInfo {
    kind: u8,
    padding: [u8; 3],
    machine: u32,
    instruction: u64,
    stack: u64,
    number_or_result: u64,
    arguments: [u64; 6],
    more: u64,
}

const GET_SYSCALL_INFO: u32 = 0x420e;
const ENTRY: u8 = 1;

/// Waits for a stop. `None` when it sleeps in the kernel: nobody else runs meanwhile, so it will
/// not wake by itself.
fn wait_unless_asleep(pid: Pid) -> Option<i32> {
    loop {
        let mut status = 0;
        // SAFETY: the pointer is valid for the call, because it points to room for the status,
        // which outlives it.
        match unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL | libc::WNOHANG) } {
            0 if state(pid) == 'S' => return None,
            0 => std::thread::yield_now(),
            _ => return Some(status),
        }
    }
}

fn state(pid: Pid) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process has a state");
    let after_name = stat.rsplit_once(") ").expect("the name stands in brackets").1;
    after_name.chars().next().expect("then comes its state")
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Enter(number) => write!(f, "before {}", call_name(*number)),
            Self::Leave(number) => write!(f, "after {}", call_name(*number)),
            Self::Wait(number) => write!(f, "in {}, which waits", call_name(*number)),
            Self::Store { before, offset, bytes } => {
                write!(
                    f,
                    "{} a store of {bytes} bytes at {offset}",
                    if *before { "before" } else { "after" }
                )
            }
        }
    }
}
