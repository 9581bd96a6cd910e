//! A process that can map or allocate no more: it gives up what it keeps for speed, and what is
//! still short is an error, not the end of the process.
#![cfg(linux_backend)] // it needs the kernel
#![allow(unsafe_code)]

use std::fs::{self, File};
use std::ptr::{NonNull, null_mut};

use shmarray::{
    Access, Array, Error, ErrorKind, Options, Pipe, segments, sweep, sweep_dead, unlink,
};

use crate::exchange::receive;
use crate::support::{create, directory, fork};
use crate::watched::{Pool, wait_for, watched};

const MIB: u64 = 1 << 20;

fn bytes(count: u64) -> Result<Array, Error> {
    create(count, &Options::default())
}

/// Returns the address space that this process has, in bytes.
fn address_space() -> u64 {
    let told = fs::read_to_string("/proc/self/statm").unwrap();
    told.split(' ').next().unwrap().parse::<u64>().unwrap() * 4096
}

/// Returns the address space that mappings of segments take, in bytes.
fn mapped_segments() -> u64 {
    let told = fs::read_to_string("/proc/self/maps").unwrap();
    let ours = told.lines().filter(|line| line.contains("/shmarray-"));
    let bounds = ours.map(|line| line.split(' ').next().unwrap().split_once('-').unwrap());
    let number = |text| u64::from_str_radix(text, 16).unwrap();
    bounds.map(|(start, end)| number(end) - number(start)).sum()
}

/// Lets this process have so much more address space than it has.
fn limit_address_space(more: u64) {
    let most = address_space() + more;
    let limit = libc::rlimit { rlim_cur: most, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the pointer is valid for the call, because it points to a limit that outlives it and
    // is only read.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
}

/// Returns the mapped segments whose files have no name any more.
fn mappings_of_ended_segments() -> usize {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|line| line.contains("/shmarray-") && line.ends_with("(deleted)")).count()
}

/// Receives arrays of 32 MiB from one process after the other, which end before the next one comes.
fn from_many_processes(access: Access, ends: fn(crate::support::Forked, &Pipe)) {
    watched(Pool::Default, || {
        let (here, there) = Pipe::pair().unwrap();
        drop(bytes(9).unwrap());
        limit_address_space(320 * MIB);
        for round in 0..24 {
            wait_for(format!("the array of process {round}"));
            let (held, holds) = Pipe::pair().unwrap();
            let maker = fork(|| {
                let array = bytes(32 * MIB).unwrap();
                array.set(&[0], round as u8).unwrap();
                there.send(b"", &[&array], None).unwrap();
                receive(&holds);
            });
            let array = receive(&here).array(0, access).unwrap();
            assert_eq!(array.get::<u8>(&[0]).unwrap(), round as u8);
            drop(array);
            ends(maker, &held);
        }
        sweep_dead().unwrap();
        assert_eq!(mappings_of_ended_segments(), 0);
        assert!(Vec::<u8>::new().try_reserve_exact(250 << 20).is_ok(), "the rest is not free");
    });
}

fn let_end(maker: crate::support::Forked, held: &Pipe) {
    held.send(b"go", &[], None).unwrap();
    maker.ended();
}

#[test]
fn arrays_of_processes_that_have_ended_take_no_address_space() {
    from_many_processes(Access::ReadWrite, let_end);
}

#[test]
fn private_copies_of_processes_that_have_ended_take_no_address_space() {
    from_many_processes(Access::CopyOnWrite, let_end);
}

#[test]
fn arrays_of_processes_that_were_killed_take_no_address_space() {
    from_many_processes(Access::ReadWrite, |maker, _held| maker.kill());
}

/// Receives so many arrays of a living process, each in a slab of its own, and drops them.
fn cache_mappings(count: usize) -> crate::support::Forked {
    let (here, there) = Pipe::pair().unwrap();
    let maker = fork(|| {
        let arrays: Vec<_> = (0..count as u64).map(|n| bytes(8 * MIB + n).unwrap()).collect();
        arrays.iter().for_each(|array| {
            there.send(b"", &[array], None).unwrap();
        });
        receive(&there);
    });
    for _ in 0..count {
        drop(receive(&here).array(0, Access::ReadWrite).unwrap());
    }
    std::mem::forget(here); // open, so that the maker waits
    maker
}

#[test]
fn cached_mappings_are_given_up_for_an_array() {
    watched(Pool::Default, || {
        let maker = cache_mappings(8);
        limit_address_space(16 * MIB);
        drop(bytes(40 * MIB).unwrap());
        maker.kill();
    });
}

#[test]
fn cached_mappings_take_an_eighth_of_the_limit_at_most() {
    watched(Pool::Default, || {
        let most = (address_space() + 400 * MIB) / 8 + 9 * MIB; // and what receiving takes
        limit_address_space(400 * MIB);
        let maker = cache_mappings(20);
        let taken = mapped_segments();
        assert!(taken <= most, "{taken} bytes are taken");
        maker.kill();
    });
}

#[test]
fn the_pool_is_given_up_for_an_array_and_for_private_memory() {
    watched(Pool::Default, || {
        drop(bytes(40 * MIB).unwrap());
        limit_address_space(16 * MIB);
        drop(bytes(50 * MIB).unwrap());
        limit_address_space(100 * MIB);
        let array = bytes(50 * MIB).unwrap();
        drop(bytes(30 * MIB).unwrap());
        limit_address_space(30 * MIB);
        assert_eq!(array.to_bytes().unwrap().len(), 50 << 20);
    });
}

#[test]
fn what_is_still_short_is_an_error_and_leaves_the_rest_to_the_program() {
    watched(Pool::Default, || {
        let maker = cache_mappings(4);
        drop(bytes(24 * MIB).unwrap());
        limit_address_space(16 * MIB);
        let error = bytes(200 * MIB).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoMemory, "{error}");
        assert!(error.to_string().contains("ulimit -v"), "{error}");
        assert!(Vec::<u8>::new().try_reserve_exact(60 << 20).is_ok());
        assert_eq!(bytes(9).unwrap().get::<u8>(&[8]).unwrap(), 0);
        maker.kill();
    });
}

/// Splits private memory into mappings until there can be no more. Returns the pages that are
/// mappings of their own.
fn take_mappings() -> Vec<NonNull<u8>> {
    const PAGES: usize = 200_000;
    // SAFETY: the mapping replaces no other, because the kernel chooses its place.
    let start = unsafe {
        libc::mmap(
            null_mut(),
            PAGES * 4096,
            libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    assert_ne!(start, libc::MAP_FAILED);
    let mut split = Vec::with_capacity(PAGES / 2);
    for page in (1..PAGES).step_by(2) {
        let at = start.wrapping_byte_add(page * 4096);
        if protect(at.cast(), libc::PROT_READ) != 0 {
            break;
        }
        split.push(NonNull::new(at.cast()).unwrap());
    }
    assert!(split.len() < PAGES / 2, "this system allows more mappings than the test takes");
    split
}

/// Makes arrays until there is an error.
fn until_an_error() -> (Vec<Array>, Error) {
    let mut made = Vec::new();
    loop {
        match bytes(5000) {
            Ok(array) => made.push(array),
            Err(error) => return (made, error),
        }
    }
}

fn protect(page: *mut u8, protection: libc::c_int) -> libc::c_int {
    // SAFETY: the page is this test's own, which never accesses it.
    unsafe { libc::mprotect(page.cast(), 4096, protection) }
}

fn named(name: &str, persist: bool) -> Array {
    let options = Options::new().name(name).persist(persist);
    create(9, &options).unwrap()
}

#[test]
#[cfg_attr(target_env = "musl", ignore = "musl's malloc takes a mapping for a few kilobytes")]
fn at_the_limit_of_mappings_names_are_unlinked_and_the_error_names_the_limit() {
    watched(Pool::Off, || {
        let mine = named("mine", true);
        named("nobodys", true);
        let split = take_mappings();
        // The kernel allows some more mappings than it splits memory into.
        let (_some, error) = until_an_error();
        assert_eq!(error.kind(), ErrorKind::NoMemory, "{error}");
        assert!(error.to_string().contains("vm.max_map_count"), "{error}");
        unlink("nobodys").unwrap();
        unlink("mine").unwrap();
        sweep().unwrap();
        let listed = segments().unwrap();
        assert!(listed.iter().all(|info| info.name.as_deref() != Some("nobodys")));
        assert!(listed.iter().all(|info| !info.persists));
        fork(|| assert_eq!(mine.get::<u8>(&[0]).unwrap(), 0)).ended();
        split.iter().take(8).for_each(|page| {
            assert_eq!(protect(page.as_ptr(), libc::PROT_NONE), 0);
        });
        drop(bytes(5000).unwrap());
    });
}

/// Makes files with the names that segments of neighbours have.
fn neighbours(count: usize) {
    let letters = |mut number: usize| -> String {
        (0..24)
            .map(|_| {
                let letter = char::from(b'a' + (number % 26) as u8);
                number /= 26;
                letter
            })
            .collect()
    };
    for number in 0..count {
        let segment = directory().join(format!("shmarray-{}", letters(number)));
        File::create(&segment).unwrap();
        fs::hard_link(&segment, directory().join(format!("shmarray-name-{number}"))).unwrap();
    }
}

/// Runs `work` in processes with little address space, more each time. Each says that it has no
/// memory, or works; some do the one and some the other.
fn has_memory_or_says_so(work: fn() -> Result<(), Error>) {
    watched(Pool::Off, || {
        neighbours(3_000);
        let mut outcomes = Vec::new();
        for more in (0..MIB).step_by(32 << 10) {
            wait_for(format!("work with {more} bytes"));
            let worker = fork(|| {
                let filled = fill_free_memory();
                limit_address_space(more);
                let outcome = work();
                std::mem::forget(filled);
                let code = match outcome {
                    Ok(()) => 3,
                    Err(error) if error.kind() == ErrorKind::NoMemory => 4,
                    Err(_) => 5,
                };
                // SAFETY: `_exit` takes a number, runs no handlers and never returns to this frame.
                unsafe { libc::_exit(code) };
            });
            outcomes.push(worker.wait());
        }
        let [worked, said] =
            [3, 4].map(|code| outcomes.iter().filter(move |one| **one == code << 8).count());
        assert_eq!(worked + said, outcomes.len(), "{outcomes:?}");
        assert!(said > 0, "each had memory enough");
        for file in fs::read_dir(directory()).unwrap() {
            fs::remove_file(file.unwrap().path()).unwrap();
        }
    });
}

/// Takes the memory that the allocator has, so that the next large allocations need address space.
fn fill_free_memory() -> Vec<Vec<u8>> {
    let mut all = Vec::with_capacity(10_000);
    limit_address_space(0);
    loop {
        let mut one = Vec::new();
        match one.try_reserve_exact(40 << 10) {
            Ok(()) => all.push(one),
            Err(_) => return all,
        }
    }
}

#[test]
fn a_sweep_beside_many_neighbours_has_memory_or_says_so() {
    has_memory_or_says_so(|| sweep().map(drop));
}

#[test]
fn a_list_of_many_neighbours_has_memory_or_says_so() {
    has_memory_or_says_so(|| segments().map(drop));
}

#[test]
fn a_first_array_beside_many_neighbours_has_memory_or_says_so() {
    has_memory_or_says_so(|| bytes(9).map(drop));
}
