//! Archives that become large when they are inflated: the peak memory of the process is asserted.

use flate2::{Compress, Compression, FlushCompress};
use shmarray::npy::{Batch, Elements, Npz, Source, write_npy};
use shmarray::{Error, Options};

use super::making::{Member, archive, npy, npy_with_text, text_of};
use super::{load_npy, load_npz, npy_field, refusal};
use crate::support::scenario;

/// More than what the process needs for itself and for the bytes of an archive.
const MOST_BYTES: u64 = 32 << 20;

/// Returns the most memory that this process has had at once, shared memory included.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.map_or(0, |text| text.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10)
}

/// Runs a scenario whose process must not become large. Elsewhere than on Linux the memory is not
/// known, and the errors are checked alone.
fn small_scenario(body: impl FnOnce()) {
    scenario(|| {
        body();
        assert_eq!(peak_bytes() > 0, cfg!(target_os = "linux"));
        assert!(peak_bytes() < MOST_BYTES, "the peak was {} MiB", peak_bytes() >> 20);
    });
}

/// Returns a member that becomes so many MiB of zeros behind the header of an array of all but 128
/// bytes of them.
fn bomb(name: &str, mib: usize) -> Member {
    bomb_of(name, mib, (mib << 20) - 128)
}

/// Returns a member that becomes so many MiB of zeros, from about a thousandth of that, behind the
/// header of an array of `count` bytes. Its CRC is wrong, which nobody finds out.
fn bomb_of(name: &str, mib: usize, count: usize) -> Member {
    let header = npy("'|u1'", &format!("({count},)"), &[]);
    let mut encoder = Compress::new(Compression::new(9), false);
    let mut piece = |bytes: &[u8], flush| {
        let mut piece = Vec::with_capacity(1 << 16);
        encoder.compress_vec(bytes, &mut piece, flush).unwrap();
        piece
    };
    let zeros = vec![0; 1 << 20];
    // After a full flush a piece needs nothing of those before it.
    let first = piece(&[&header[..], &zeros[header.len()..]].concat(), FlushCompress::Full);
    let middle = piece(&zeros, FlushCompress::Full);
    let last = piece(&zeros, FlushCompress::Finish);
    let data = [first, middle.repeat(mib - 2), last].concat();
    let mut member = Member::deflated(name, b"").both(|header| {
        (header.size, header.compressed) = ((mib << 20) as u32, data.len() as u32);
    });
    member.data = data;
    member
}

fn limit_of(error: Error) -> (Option<String>, String) {
    let refusal = refusal(error);
    assert_eq!(refusal.field, "max_bytes");
    (refusal.member, refusal.reason)
}

#[test]
fn one_huge_member() {
    small_scenario(|| {
        let bytes = archive(&[bomb("a.npy", 1025)]);
        assert!(bytes.len() < 2 << 20, "{} bytes", bytes.len());
        let npz = Npz::open(Source::bytes(&bytes)).unwrap().with_max_bytes(1 << 30);
        let all = npz.each(&[0], 1, |member| member.load(&Options::new())).err();
        for error in [npz.member(0).err(), npz.load(0, &Options::new()).err(), all] {
            let (member, reason) = limit_of(error.unwrap());
            assert_eq!(member.as_deref(), Some("a.npy"));
            assert!(reason.contains("1074790400") && reason.contains("1073741824"), "{reason}");
        }
    });
}

#[test]
fn many_members_that_are_huge_together() {
    small_scenario(|| {
        let members: Vec<_> = (0..9).map(|at| bomb(&format!("{at}.npy"), 120)).collect();
        let bytes = archive(&members);
        let npz = Npz::open(Source::bytes(&bytes)).unwrap().with_max_bytes(1 << 30);
        let all: Vec<_> = (0..9).collect();
        let error = npz.each(&all, 2, |member| member.load(&Options::new())).unwrap_err();
        assert_eq!(limit_of(error).0.as_deref(), Some("8.npy"));
        let npz = npz.with_max_bytes(100 << 20);
        assert_eq!(limit_of(npz.member(3).err().unwrap()).0.as_deref(), Some("3.npy"));
    });
}

/// A header is all that is inflated of a member that is not loaded.
#[test]
fn a_huge_member_that_is_only_looked_at() {
    small_scenario(|| {
        let bytes = archive(&[bomb("a.npy", 1000)]);
        let npz = Npz::open(Source::bytes(&bytes)).unwrap();
        assert_eq!(npz.member(0).unwrap().header().unwrap().shape(), [(1000 << 20) - 128]);
    });
}

/// As in zbsm.zip: each member's header is at the end of the one before, and all have one kernel.
#[test]
fn many_members_that_share_their_data() {
    small_scenario(|| {
        let kernel = bomb("0.npy", 64);
        let others = (1..200).map(|at| {
            let mut other = kernel.clone().listed(|header| {
                header.name = format!("{at}.npy").into_bytes();
                header.offset = Some(0);
            });
            other.data.clear();
            other
        });
        let members: Vec<_> = std::iter::once(kernel.clone()).chain(others).collect();
        let error = Npz::open(Source::bytes(&archive(&members))).err().unwrap();
        assert_eq!(refusal(error).field, "compressed size");
    });
}

#[test]
fn a_declared_size_that_is_smaller_than_what_it_becomes() {
    small_scenario(|| {
        let bomb = bomb("a.npy", 900);
        for declared in [100u32, 1 << 20] {
            let bytes = archive(&[bomb.clone().both(|header| header.size = declared)]);
            assert_eq!(refusal(load_npz(Source::bytes(&bytes)).unwrap_err()).field, "data");
        }
        // The header says no more than the directory.
        let size = (1 << 20) + npy("'|u1'", "(1048576,)", &[]).len() as u32;
        let member = bomb_of("a.npy", 900, 1 << 20).both(|header| header.size = size);
        let error = load_npz(Source::bytes(&archive(&[member]))).unwrap_err();
        assert_eq!(refusal(error).field, "size");
    });
}

#[test]
fn a_declared_size_that_is_larger_than_what_it_becomes() {
    small_scenario(|| {
        for size in [1 << 20, 1 << 30, u32::MAX - 1] {
            let text = text_of("'|u1'", &format!("({},)", size - 1000));
            let member = Member::deflated("a.npy", &npy_with_text(&text, &[0; 9000]));
            let bytes = archive(&[member.both(|header| header.size = size)]);
            // Nothing of a thousandth of the size becomes as large, so nothing is reserved for it.
            let field = refusal(load_npz(Source::bytes(&bytes)).unwrap_err()).field;
            assert!(["size", "max_bytes"].contains(&field), "{field}");
        }
    });
}

#[test]
fn a_ratio_that_no_deflated_data_has() {
    small_scenario(|| {
        let member = Member::deflated("a.npy", &npy("'|u1'", "(9,)", &[0; 9]));
        let most = (member.data.len() as u32 + 1) * 1032;
        let field = |size| {
            let bytes = archive(&[member.clone().both(|header| header.size = size)]);
            let error = load_npz(Source::bytes(&bytes)).unwrap_err();
            let refusal = refusal(error);
            assert_eq!(refusal.field, "size");
            refusal.reason.contains("never become")
        };
        assert!(!field(most - 1));
        assert!(field(most));
        assert!(field(u32::MAX - 1));
    });
}

/// As in 42.zip: an archive in an archive is bytes, and is not opened.
#[test]
fn an_archive_in_an_archive() {
    small_scenario(|| {
        let inner = archive(&[bomb("a.npy", 1025)]);
        let outer = archive(&[Member::deflated("inner.npz", &inner)]);
        let arrays = load_npz(Source::bytes(&outer)).unwrap();
        assert_eq!(arrays[0].to_bytes().unwrap(), inner);
    });
}

#[test]
fn a_small_file_with_a_huge_shape() {
    small_scenario(|| {
        for shape in ["(1099511627776,)", "(1048576, 1048576)", "(9223372036854775807,)"] {
            let bytes = npy("'|u1'", shape, &[0; 1000]);
            assert_eq!(npy_field(&bytes), "data");
            let error = Batch::open(1000, |_| Ok(Source::bytes(&bytes))).err().unwrap();
            assert_eq!(refusal(error).field, "data");
        }
    });
}

/// Items of no size take no memory, however many they are.
#[test]
fn more_items_of_no_size_than_there_is_memory() {
    small_scenario(|| {
        let bytes = npy("'|V0'", "(1099511627776,)", &[]);
        assert_eq!(load_npy(Source::bytes(&bytes)).unwrap().shape(), [1 << 40]);
        let bytes = npy("'<f8'", "(0, 1099511627776)", &[]);
        let array = load_npy(Source::bytes(&bytes)).unwrap();
        let mut saved = Vec::new();
        write_npy(&mut saved, &Elements::of(&array).unwrap()).unwrap();
        assert_eq!(saved.len(), 128);
    });
}
