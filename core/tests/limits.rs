//! Large numbers: a thousand processes, a hundred thousand arrays, workers that die one after the
//! other.
#![cfg(all(target_os = "linux", not(feature = "portable"), not(miri)))] // it needs the kernel
#![allow(missing_docs, unsafe_code)]

mod support;

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};

use shmarray::{Access, Array, DType, Options};
use support::{Forked, Peer, directory, fork, is_peer, scenario, segments_in, serve};

fn bytes(count: u64) -> Array {
    Array::create(DType::parse("|u1").unwrap(), &[count], &Options::default()).unwrap()
}

fn handle_of(array: &Array) -> String {
    array.handle()
}

/// Too large for a shared slab: an array with a file of its own.
const ALONE: u64 = 200_000;

/// Lets as many others go on as bytes are written. None waits for it to be closed.
struct Gate(UnixStream, UnixStream);

impl Gate {
    fn new() -> Self {
        let (read, write) = UnixStream::pair().unwrap();
        Self(read, write)
    }

    fn open(&self, times: usize) {
        (&self.1).write_all(&vec![1; times]).unwrap();
    }

    /// Waits for so many, and checks that each reports success.
    fn wait(&self, times: usize) {
        let mut said = vec![0; times];
        (&self.0).read_exact(&mut said).unwrap();
        assert!(said.iter().all(|fine| *fine == 1), "one of them failed");
    }

    /// Runs `body` and reports whether it succeeded, so that a waiting process learns of a failure
    /// too.
    fn say(&self, body: impl FnOnce()) {
        let fine = catch_unwind(AssertUnwindSafe(body)).is_ok();
        (&self.1).write_all(&[u8::from(fine)]).unwrap();
    }
}

fn rest() -> ! {
    loop {
        std::thread::park();
    }
}

const CROWD: u64 = 1000;
const RELATED: u64 = 900;

/// Rows of the crowd's array: what its maker wrote, what each member wrote when it came, what the
/// survivors wrote. There are more rows where the array shall have a segment to itself.
fn wrote(row: u64, member: u64) -> u64 {
    (member + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(row as u32 * 8)
}

fn crowds_array(rows: u64) -> Array {
    let array =
        Array::create(DType::parse("<u8").unwrap(), &[rows, CROWD], &Options::default()).unwrap();
    (0..CROWD).for_each(|member| array.set(&[0, member], wrote(0, member)).unwrap());
    array
}

fn come(array: &Array, member: u64) {
    assert_eq!(array.get::<u64>(&[0, member]).unwrap(), wrote(0, member));
    array.set(&[1, member], wrote(1, member)).unwrap();
}

/// Half of the crowd was killed. What all members wrote is there, and this one can write.
fn survive(array: &Array, member: u64) {
    for (row, other) in (0..2).flat_map(|row| (0..CROWD).map(move |other| (row, other))) {
        assert_eq!(
            array.get::<u64>(&[row, other]).unwrap(),
            wrote(row, other),
            "{other}'s in row {row}"
        );
    }
    array.set(&[2, member], wrote(2, member)).unwrap();
    assert_eq!(array.get::<u64>(&[2, member]).unwrap(), wrote(2, member));
}

/// A member of the crowd that was not forked by its first process.
#[test]
#[ignore = "it is another process of the tests"]
fn member() {
    if !is_peer("member") {
        return;
    }
    let mut held = None;
    serve(|line| match line.split_once(' ') {
        Some((member, handle)) => {
            let array = Array::attach(handle, Access::ReadWrite).unwrap();
            come(&array, member.parse().unwrap());
            held = Some((array, member.parse().unwrap()));
            "came".to_owned()
        }
        _ if line == "survive" => {
            let (array, member) = held.as_ref().unwrap();
            survive(array, *member);
            "survived".to_owned()
        }
        _ => format!("swept {}", shmarray::sweep().unwrap().segments),
    });
}

/// Forks a member of the crowd, which holds from its fork on.
fn related(array: &Array, member: u64, [came, work, survived, end]: [&Gate; 4]) -> Forked {
    fork(|| {
        came.say(|| come(array, member));
        work.wait(1);
        survived.say(|| survive(array, member));
        end.wait(1);
    })
}

/// Kills every second one. Returns the others.
fn decimated<T>(crowd: Vec<T>, kill: impl Fn(T)) -> Vec<T> {
    let (killed, left): (Vec<_>, Vec<_>) =
        crowd.into_iter().enumerate().partition(|(index, _)| index % 2 == 0);
    killed.into_iter().for_each(|(_, member)| kill(member));
    left.into_iter().map(|(_, member)| member).collect()
}

/// Checks that a sweep by this process and one by a survivor give nothing back.
fn is_held(handle: &str, survivor: &mut Peer) {
    assert_eq!(
        (shmarray::sweep().unwrap().segments, survivor.ask("sweep").as_str()),
        (0, "swept 0")
    );
    assert!(Array::attach(handle, Access::ReadOnly).is_ok());
}

fn a_crowd_lives_and_dies(rows: u64) {
    let (array, gates) = (crowds_array(rows), [(); 4].map(|()| Gate::new()));
    let [came, work, survived, end] = &gates;
    let handle = handle_of(&array);
    let forked =
        (0..RELATED).map(|member| related(&array, member, [came, work, survived, end])).collect();
    let mut peers: Vec<_> = (RELATED..CROWD).map(|_| Peer::start("member")).collect();
    peers
        .iter_mut()
        .zip(RELATED..)
        .for_each(|(peer, member)| peer.tell(&format!("{member} {handle}")));
    came.wait(RELATED as usize);
    peers.iter_mut().for_each(|peer| assert_eq!(peer.hear(), "came"));

    let (forked, mut peers) = (decimated(forked, Forked::kill), decimated(peers, Peer::kill));
    assert_eq!(forked.len() + peers.len(), CROWD as usize / 2);
    drop(array);
    is_held(&handle, &mut peers[0]);
    work.open(forked.len());
    survived.wait(forked.len());
    peers.iter_mut().for_each(|peer| assert_eq!(peer.ask("survive"), "survived"));
    let again = Array::attach(&handle, Access::ReadOnly).unwrap();
    for member in 0..CROWD {
        let expected = if member % 2 == 0 { 0 } else { wrote(2, member) };
        assert_eq!(again.get::<u64>(&[2, member]).unwrap(), expected, "{member}");
    }
    drop(again);

    end.open(forked.len());
    forked.into_iter().for_each(Forked::ended);
    let mut last = peers.pop().unwrap();
    peers.into_iter().for_each(Peer::end);
    is_held(&handle, &mut last);
    last.end();
    shmarray::sweep().unwrap();
    assert!(Array::attach(&handle, Access::ReadOnly).is_err());
    assert_eq!(segments_in(&directory()), Vec::<String>::new());
}

#[test]
fn a_thousand_processes_hold_a_small_array_and_the_killed_half_takes_nothing_from_the_others() {
    let name =
        "a_thousand_processes_hold_a_small_array_and_the_killed_half_takes_nothing_from_the_others";
    scenario(name, || a_crowd_lives_and_dies(3));
}

#[test]
fn a_thousand_processes_hold_a_segment_and_the_killed_half_takes_nothing_from_the_others() {
    let name =
        "a_thousand_processes_hold_a_segment_and_the_killed_half_takes_nothing_from_the_others";
    scenario(name, || a_crowd_lives_and_dies(ALONE / (8 * CROWD)));
}

const MANY: usize = 100_000;
const MOST_FDS: usize = 32;
const MOST_MAPPINGS: usize = 5_000;
/// The number of handles in one line to the other process.
const LINE: usize = 1_000;
const SEED: u64 = 0x5eed_0123_4567_89ab;

/// Checks that this process has few fds and mappings, whatever it holds.
fn within_limits(held: usize) {
    let fds = fs::read_dir("/proc/self/fd").unwrap().count();
    assert!(fds < MOST_FDS, "{held} arrays take {fds} fds");
    let mappings = fs::read_to_string("/proc/self/maps").unwrap().lines().count();
    assert!(mappings < MOST_MAPPINGS, "{held} arrays take {mappings} mappings");
}

/// Returns the same order in every process: xorshift (Marsaglia), and the shuffle of Fisher and
/// Yates.
fn shuffled(count: usize) -> Vec<usize> {
    let (mut order, mut state): (Vec<usize>, u64) = ((0..count).collect(), SEED);
    for index in (1..count).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        order.swap(index, (state % (index as u64 + 1)) as usize);
    }
    order
}

/// Arrays in the order in which they were made, each with its number in its last eight bytes.
#[derive(Default)]
struct Hoard(Vec<Option<Array>>);

fn number_of(array: &Array) -> u64 {
    let count = array.shape()[0];
    u64::from_le_bytes(std::array::from_fn(|at| array.get(&[count - 8 + at as u64]).unwrap()))
}

impl Hoard {
    fn make(&mut self, item_count: u64) {
        let (array, number) = (bytes(item_count), self.0.len() as u64);
        for (at, byte) in number.to_le_bytes().into_iter().enumerate() {
            array.set(&[item_count - 8 + at as u64], byte).unwrap();
        }
        self.0.push(Some(array));
    }

    fn drop_half(&mut self) {
        let order = shuffled(self.0.len());
        order[..order.len() / 2].iter().for_each(|index| self.0[*index] = None);
    }

    fn attach(&mut self, handles: &str) -> String {
        let before = self.0.len();
        let attached =
            handles.split('\t').map(|handle| Array::attach(handle, Access::ReadOnly).unwrap());
        self.0.extend(attached.map(Some));
        within_limits(self.0.len());
        self.intact(before).to_string()
    }

    /// Returns how many are held, from `first` on. Each has its own number.
    fn intact(&self, first: usize) -> usize {
        let held = self
            .0
            .iter()
            .enumerate()
            .skip(first)
            .filter_map(|(number, array)| Some((number, array.as_ref()?)));
        held.inspect(|(number, array)| assert_eq!(number_of(array), *number as u64)).count()
    }
}

/// Holds every array that it is told, within the same limits.
#[test]
#[ignore = "it is another process of the tests"]
fn hoarder() {
    if !is_peer("hoarder") {
        return;
    }
    let mut hoard = Hoard::default();
    serve(|line| {
        match line {
            "drop half" => hoard.drop_half(),
            "drop all" => hoard.0.clear(),
            handles => return hoard.attach(handles),
        }
        shmarray::sweep().unwrap();
        hoard.intact(0).to_string()
    });
}

/// Returns the shared memory that the files of the scenario take, in bytes.
fn used_bytes() -> u64 {
    let files = fs::read_dir(directory()).unwrap();
    // A file that was removed meanwhile takes none.
    files.filter_map(|file| Some(file.unwrap().metadata().ok()?.blocks() * 512)).sum()
}

fn a_hundred_thousand(item_count: u64) {
    let (mut hoard, mut peer) = (Hoard::default(), Peer::start("hoarder"));
    while hoard.0.len() < MANY {
        (0..LINE).for_each(|_| hoard.make(item_count));
        within_limits(hoard.0.len());
        let new = hoard.0[hoard.0.len() - LINE..].iter().flatten();
        peer.tell(&new.map(handle_of).collect::<Vec<_>>().join("\t"));
    }
    (0..MANY / LINE).for_each(|_| assert_eq!(peer.hear(), LINE.to_string()));
    assert_eq!(hoard.intact(0), MANY);
    let used_by_all = used_bytes();

    hoard.drop_half();
    assert_eq!(peer.ask("drop half"), (MANY / 2).to_string());
    shmarray::sweep().unwrap();
    let used_by_half = used_bytes();
    assert!(
        used_by_half * 10 < used_by_all * 6,
        "{used_by_half} of {used_by_all} bytes are still in use"
    );
    assert_eq!(hoard.intact(0), MANY / 2);

    hoard.0.clear();
    assert_eq!(peer.ask("drop all"), "0");
    shmarray::sweep().unwrap();
    assert_eq!(segments_in(&directory()), Vec::<String>::new());
    peer.end();
}

#[test]
fn a_hundred_thousand_arrays_of_eight_bytes_take_few_fds_and_mappings() {
    let name = "a_hundred_thousand_arrays_of_eight_bytes_take_few_fds_and_mappings";
    scenario(name, || a_hundred_thousand(8));
}

#[test]
fn a_hundred_thousand_arrays_of_a_page_take_few_fds_and_mappings() {
    let name = "a_hundred_thousand_arrays_of_a_page_take_few_fds_and_mappings";
    scenario(name, || a_hundred_thousand(4096));
}

/// The arrays of its own that each worker leaves.
const OWN: usize = 3;
const WORKERS: usize = 300;
/// The creates between two sweeps of a process. There are more only where so many segments are in
/// use, because a sweep examines each (sweep.rs).
const CREATES_BETWEEN_SWEEPS: usize = 64;
/// While the supervisor makes one array for each worker, so many workers may have died since its
/// last sweep, each of which left its own arrays; the supervisor's arrays are added.
const MOST_FILES: usize = (CREATES_BETWEEN_SWEEPS + 1) * OWN + 2;

/// Holds what it got from the supervisor, by its fork and once more, and its own arrays, until it
/// is killed.
fn work(handed: &Array, has_all: &Gate) -> Forked {
    fork(|| {
        has_all.say(|| {
            let again = Array::attach(&handle_of(handed), Access::ReadWrite).unwrap();
            again.set(&[0], again.get::<u8>(&[0]).unwrap().wrapping_add(1)).unwrap();
            std::mem::forget((again, [(); OWN].map(|()| bytes(ALONE))));
        });
        rest();
    })
}

/// A supervisor's life: workers come and are killed one after the other. Returns the most files and
/// bytes that there were at once, with the handed array.
fn supervise(handed: &Array, mut worker_comes_and_dies: impl FnMut()) -> (usize, u64) {
    let one = |round: usize| {
        worker_comes_and_dies();
        drop(bytes(ALONE)); // the supervisor's own work
        assert_eq!(handed.get::<u8>(&[0]).unwrap(), (round + 1) as u8, "each worker had it");
        (segments_in(&directory()).len(), used_bytes())
    };
    let rounds: Vec<_> = (0..WORKERS).map(one).collect();
    (
        rounds.iter().map(|round| round.0).max().unwrap(),
        rounds.iter().map(|round| round.1).max().unwrap(),
    )
}

fn stays_within_the_sweep_interval((files, used): (usize, u64), bytes_of_one: u64) {
    shmarray::sweep().unwrap(); // what the last of them left
    assert!(files <= MOST_FILES, "{files} files at once, more than {MOST_FILES}");
    assert!(used <= MOST_FILES as u64 * bytes_of_one, "{used} bytes at once");
}

#[test]
fn what_the_workers_of_a_supervisor_leave_stays_within_the_sweep_interval() {
    scenario("what_the_workers_of_a_supervisor_leave_stays_within_the_sweep_interval", || {
        let (handed, has_all) = (bytes(ALONE), Gate::new());
        let bytes_of_one = used_bytes();
        let most = supervise(&handed, || {
            let worker = work(&handed, &has_all);
            has_all.wait(1);
            worker.kill();
        });
        stays_within_the_sweep_interval(most, bytes_of_one);
    });
}

/// A forkserver that has used the library forks the workers. So none of them is the first to use
/// it, and the creates of one do not count for the next. Only the supervisor sweeps.
#[test]
fn what_the_workers_of_a_forkserver_leave_stays_within_the_sweep_interval() {
    scenario("what_the_workers_of_a_forkserver_leave_stays_within_the_sweep_interval", || {
        let (handed, gates) = (bytes(ALONE), [(); 3].map(|()| Gate::new()));
        let [next, has_all, is_dead] = &gates;
        let bytes_of_one = used_bytes();
        let forkserver = fork(|| {
            for _ in 0..WORKERS {
                next.wait(1);
                is_dead.say(|| {
                    let worker = work(&handed, has_all);
                    has_all.wait(1);
                    worker.kill();
                });
            }
        });
        let most = supervise(&handed, || {
            next.open(1);
            is_dead.wait(1);
        });
        forkserver.ended();
        stays_within_the_sweep_interval(most, bytes_of_one);
    });
}

/// Sweeps until it is killed, and counts its sweeps in the array that it is told.
#[test]
#[ignore = "it is another process of the tests"]
fn sweeper() {
    if !is_peer("sweeper") {
        return;
    }
    serve(|handle| {
        let count = Array::attach(handle, Access::ReadWrite).unwrap();
        std::thread::spawn(move || {
            loop {
                shmarray::sweep().unwrap();
                count.set(&[0], count.get::<u64>(&[0]).unwrap() + 1).unwrap();
            }
        });
        "sweeps".to_owned()
    });
    rest(); // its input was closed with all other fds of the peer
}

#[test]
fn closing_every_descriptor_while_another_process_sweeps_loses_nothing_and_breaks_nothing() {
    let name =
        "closing_every_descriptor_while_another_process_sweeps_loses_nothing_and_breaks_nothing";
    scenario(name, || {
        let count = Array::create(DType::parse("<u8").unwrap(), &[1], &Options::default()).unwrap();
        let held = [10, 5_000, ALONE].map(bytes);
        let again = held
            .each_ref()
            .map(|array| Array::attach(&handle_of(array), Access::ReadOnly).unwrap());
        let mut peer = Peer::start("sweeper");
        assert_eq!(peer.ask(&handle_of(&count)), "sweeps");
        let sweeper = peer.process.id() as i32;
        std::mem::forget(peer); // its pipes are closed below
        (3..1024).for_each(support::close); // nothing in this scenario uses any of them again
        // Two sweeps that began after this.
        let swept = || {
            let before = count.get::<u64>(&[0]).unwrap();
            while count.get::<u64>(&[0]).unwrap() < before + 2 {
                std::thread::yield_now();
            }
        };
        swept();
        for (array, again) in held.iter().zip(&again) {
            array.set(&[9], 9u8).unwrap();
            assert_eq!(again.get::<u8>(&[9]).unwrap(), 9);
            assert_eq!(
                Array::attach(&handle_of(array), Access::ReadOnly)
                    .unwrap()
                    .get::<u8>(&[9])
                    .unwrap(),
                9
            );
        }
        let made = [10, 5_000, ALONE].map(bytes);
        fork(|| {
            swept();
            let own = bytes(ALONE);
            made.iter().chain([&own]).for_each(|array| array.set(&[4], 4u8).unwrap());
            assert_eq!(
                Array::attach(&handle_of(&held[0]), Access::ReadOnly)
                    .unwrap()
                    .get::<u8>(&[9])
                    .unwrap(),
                9
            );
        })
        .ended();
        swept();
        assert!(made.iter().all(|array| array.get::<u8>(&[4]).unwrap() == 4));
        let gone = handle_of(&held[2]);
        drop((held, again));
        swept();
        assert!(Array::attach(&gone, Access::ReadOnly).is_err());
        assert!(
            made.iter().all(|array| Array::attach(&handle_of(array), Access::ReadOnly).is_ok())
        );
        drop((made, count));
        support::kill(sweeper);
        while !segments_in(&directory()).is_empty() {
            shmarray::sweep().unwrap(); // until the kernel has ended it
        }
    });
}
