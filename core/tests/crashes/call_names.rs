//! The names of system calls.

/// Makes a table of numbers and names out of libc's constants.
macro_rules! table {
    ($($name:ident,)*) => {
        &[$((libc::$name, stringify!($name))),*]
    };
}

/// The calls that appear in traces.
static CALLS: &[(i64, &str)] = table![
    SYS_brk,
    SYS_clock_gettime,
    SYS_clone,
    SYS_close,
    SYS_copy_file_range,
    SYS_dup3,
    SYS_exit_group,
    SYS_fallocate,
    SYS_fchmod,
    SYS_fcntl,
    SYS_flistxattr,
    SYS_flock,
    SYS_fstat,
    SYS_fstatfs,
    SYS_ftruncate,
    SYS_futex,
    SYS_getdents64,
    SYS_geteuid,
    SYS_getpid,
    SYS_getppid,
    SYS_getrandom,
    SYS_getsockopt,
    SYS_gettid,
    SYS_getuid,
    SYS_ioctl,
    SYS_linkat,
    SYS_llistxattr,
    SYS_lseek,
    SYS_madvise,
    SYS_mmap,
    SYS_mprotect,
    SYS_mremap,
    SYS_munmap,
    SYS_newfstatat,
    SYS_openat,
    SYS_pipe2,
    SYS_poll,
    SYS_ppoll,
    SYS_pread64,
    SYS_prlimit64,
    SYS_pwrite64,
    SYS_read,
    SYS_recvfrom,
    SYS_recvmsg,
    SYS_rename,
    SYS_renameat2,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_sendmsg,
    SYS_sendto,
    SYS_set_robust_list,
    SYS_sigaltstack,
    SYS_socketpair,
    SYS_statfs,
    SYS_statx,
    SYS_unlink,
    SYS_unlinkat,
    SYS_wait4,
    SYS_write,
];

/// Returns the name of a system call, or its number if it is not in the table.
pub(crate) fn call_name(number: i64) -> String {
    match CALLS.iter().find(|(known, _)| *known == number) {
        Some((_, name)) => name["SYS_".len()..].to_owned(),
        None => format!("system call {number}"),
    }
}
