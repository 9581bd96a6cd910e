//! Two processes hold a hundred thousand arrays, and few fds and mappings.

use std::fs;

use shmarray::{Access, Array};

use super::used_bytes;
use crate::support::{Peer, bytes, directory, scenario, segments_in, serve};

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
    let mut order: Vec<usize> = (0..count).collect();
    let mut state: u64 = SEED;
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
        let array = bytes(item_count);
        let number = self.0.len() as u64;
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

fn a_hundred_thousand(item_count: u64) {
    let mut hoard = Hoard::default();
    let mut peer = Peer::start(hoarder);
    while hoard.0.len() < MANY {
        (0..LINE).for_each(|_| hoard.make(item_count));
        within_limits(hoard.0.len());
        let new = hoard.0[hoard.0.len() - LINE..].iter().flatten();
        peer.tell(&new.map(Array::handle).collect::<Vec<_>>().join("\t"));
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
    scenario(|| a_hundred_thousand(8));
}

#[test]
fn a_hundred_thousand_arrays_of_a_page_take_few_fds_and_mappings() {
    scenario(|| a_hundred_thousand(4096));
}
