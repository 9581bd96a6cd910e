//! Arrays in huge pages: in a hugetlbfs, where they are protected and given back as others are, and
//! in a tmpfs that has some.
#![cfg(linux_backend)]
#![allow(unsafe_code)]

use std::os::fd::AsRawFd;

use shmarray::{
    Access, Array, DType, Error, Layout, Options, Order, Pipe, Received, SegmentInfo, SegmentKind,
};

use crate::exchange::receive;
use crate::support::{bytes, create, fork, this_test};
use crate::watched::{end_abruptly, in_mounted};

/// Runs a scenario in a hugetlbfs. It needs root, and pages that the administrator has reserved.
fn in_hugetlbfs(limit: &str, body: impl FnOnce() + std::panic::UnwindSafe) {
    let Some(_reserved) = Reserved::pages(48) else {
        return println!(
            "skipped {}: the system reserves no huge pages for it (vm.nr_hugepages)",
            this_test()
        );
    };
    in_mounted(["-t", "hugetlbfs", "-o", "pagesize=2M", "none"], limit, body);
}

/// Huge pages that the system reserves in addition, while this lives.
struct Reserved(i64);

const PAGES: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";

impl Reserved {
    fn pages(count: i64) -> Option<Self> {
        (change_reserved(count)? >= count).then_some(Self(count))
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        change_reserved(-self.0);
    }
}

/// Changes the number of reserved pages, and returns it. Other tests change it too, so one does at
/// a time.
fn change_reserved(by: i64) -> Option<i64> {
    let lock =
        std::fs::File::create(std::env::temp_dir().join("shmarray-test-huge-pages.lock")).ok()?;
    // SAFETY: the call cannot touch memory, because it takes a number and an fd, which is open; the
    // lock goes with it.
    unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX) };
    let now = || std::fs::read_to_string(PAGES).ok()?.trim().parse::<i64>().ok();
    std::fs::write(PAGES, (now()? + by).max(0).to_string()).ok()?;
    now()
}

/// Makes an array of the bytes 0, 1, 2 … 250, 0, …
fn counted(count: u64) -> Array {
    let source: Vec<_> = (0..count).map(|at| (at % 251) as u8).collect();
    let layout = Layout::contiguous(&[count], 1, Order::C).unwrap();
    // SAFETY: every element can be read, because the private memory has as many bytes as the layout
    // describes.
    unsafe {
        Array::share(source.as_ptr(), DType::parse("|u1").unwrap(), &layout, &Options::default())
    }
    .unwrap()
}

fn is_counted(array: &Array) -> bool {
    array.to_bytes().unwrap().iter().enumerate().all(|(at, byte)| *byte == (at % 251) as u8)
}

fn bytes_are_passed_and_given_back() {
    for count in [1, 5000, 3 << 20, 5_000_000] {
        let array = counted(count);
        let handle = array.handle();
        fork(|| {
            let [shared, read] =
                [Access::ReadWrite, Access::ReadOnly].map(|access| Array::attach(&handle, access));
            assert!(is_counted(&shared.unwrap()) && is_counted(&read.unwrap()));
            let own = Array::attach(&handle, Access::CopyOnWrite).unwrap();
            own.set(&[count - 1], 255u8).unwrap();
        })
        .ended();
        assert!(is_counted(&array));
        drop(array);
        let zeros = bytes(count);
        assert!(zeros.to_bytes().unwrap().iter().all(|byte| *byte == 0));
    }
}

#[test]
fn arrays_in_huge_pages_are_passed_and_given_back() {
    in_hugetlbfs("0", bytes_are_passed_and_given_back);
}

#[test]
fn huge_pages_are_kept_and_used_again() {
    in_hugetlbfs("40000000", || {
        bytes_are_passed_and_given_back();
        let segments: Vec<_> = (0..3).map(|_| counted(5_000_000).descriptor().segment.id).collect();
        assert!(segments.iter().all(|id| *id == segments[0]));
    });
}

#[test]
fn in_huge_pages_neither_a_child_nor_a_parent_keeps_what_the_other_leaves() {
    in_hugetlbfs("0", || {
        let kept = counted(100);
        let child = fork(|| {
            std::mem::forget(counted(3 << 20));
            end_abruptly();
        });
        child.ended();
        shmarray::sweep().unwrap();
        assert_eq!(
            shmarray::segments().unwrap().len(),
            1,
            "the dead child's stays beside its parent"
        );
        let (here, there) = Pipe::pair().unwrap();
        let parent = fork(|| {
            let common = counted(50); // so that both map its segment
            let lasting = fork(|| {
                there.send(b"", &[], None).unwrap();
                receive(&there);
            });
            std::mem::forget((counted(3 << 20), counted(60), common, lasting));
            end_abruptly();
        });
        parent.ended();
        drop(there);
        receive(&here);
        shmarray::sweep().unwrap();
        let is_array = |info: &SegmentInfo| info.kind == SegmentKind::Array;
        let arrays = shmarray::segments().unwrap().into_iter().filter(is_array);
        let mut shapes: Vec<_> = arrays.map(|info| info.shape).collect();
        shapes.sort();
        assert_eq!(shapes, [[50], [100]], "the dead parent's stay beside its child");
        here.send(b"", &[], None).unwrap();
        assert!(matches!(here.receive(None).unwrap(), Received::Closed), "the child ends");
        assert!(is_counted(&kept));
    });
}

#[test]
fn a_store_to_a_read_only_array_in_huge_pages_is_a_fault() {
    in_hugetlbfs("0", || {
        let array = counted(100);
        let handle = array.handle();
        let child = fork(|| {
            let read = Array::attach(&handle, Access::ReadOnly).unwrap();
            // SAFETY: none: the memory is mapped read-only, and the test is that this store faults.
            unsafe { read.as_ptr().write_volatile(1) };
        });
        child.ended_by(11);
    });
}

#[test]
fn more_than_the_reserved_pages_is_an_error() {
    in_hugetlbfs("0", || {
        let huge = create(1 << 40, &Options::default());
        assert!(matches!(huge, Err(Error::NoSpace { .. })));
    });
}

/// Returns the bytes of this process's mappings of segments that are huge pages.
fn huge_bytes() -> u64 {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let of_huge = maps.lines().filter_map(|line| line.strip_prefix("ShmemPmdMapped:"));
    of_huge.map(|size| size.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10).sum()
}

fn large_arrays_are_in_huge_pages() {
    for _ in 0..2 {
        let array = counted(32 << 20);
        assert!(is_counted(&array));
        if huge_bytes() < 16 << 20 {
            println!("skipped huge pages in a tmpfs: this kernel gave {} bytes", huge_bytes());
        }
    }
}

#[test]
fn a_tmpfs_that_gives_huge_pages_on_request_is_asked() {
    let mount = ["-t", "tmpfs", "-o", "huge=advise,size=1g", "none"];
    in_mounted(mount, "100000000", large_arrays_are_in_huge_pages);
}

#[test]
fn a_tmpfs_that_gives_huge_pages_to_all_gives_them() {
    let mount = ["-t", "tmpfs", "-o", "huge=within_size,size=1g", "none"];
    in_mounted(mount, "100000000", large_arrays_are_in_huge_pages);
}
