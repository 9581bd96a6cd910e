//! System calls that the kernel denies, as the seccomp profile of a container may.
#![allow(unsafe_code)]

use std::io::Error as Os;

/// Makes the kernel deny a call to this thread and its children, with this error: the call itself,
/// or only those whose second argument is this command.
pub(crate) fn deny(call: libc::c_long, command: Option<i32>, errno: i32) {
    const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
    const EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
    const AT_LEAST: u16 = 0x35; // BPF_JMP | BPF_JGE | BPF_K
    const RETURN: u16 = 0x06; // BPF_RET | BPF_K
    let step = |code, jf, k| libc::sock_filter { code, jt: 0, jf, k };
    let is_command = match command {
        Some(command) => step(EQUAL, 1, command as u32),
        None => step(AT_LEAST, 1, 0), // any number
    };
    let mut steps = [
        step(LOAD, 0, 0), // the call's number in a `seccomp_data`
        step(EQUAL, 3, call as u32),
        step(LOAD, 0, 24), // the lower half of the second argument
        is_command,
        step(RETURN, 0, libc::SECCOMP_RET_ERRNO | errno as u32),
        step(RETURN, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: the call cannot touch memory, because it takes plain numbers.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
    // SAFETY: the pointer is valid for the call: it points to a program whose steps outlive it.
    let status =
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    assert_eq!(status, 0, "{}", Os::last_os_error());
}
