//! The output of the commands, for arrays that another process holds.
#![allow(missing_docs)]

mod maker;
mod run;

use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use num_complex::Complex;
use shmarray::{Array, ColumnBuilder, DType, Element, List, Options};

use run::{printed, shmarray};

fn named(name: &str) -> Array {
    let options = Options::new().name(name);
    let array = Array::create(DType::parse("<i2").unwrap(), &[2, 2], &options).unwrap();
    for (index, value) in [1i16, -2, 3, 6].into_iter().enumerate() {
        array.set(&[index as u64 / 2, index as u64 % 2], value).unwrap();
    }
    array
}

#[test]
fn maker() {
    maker::run();
}

/// Returns a name that no other test or run uses.
fn unique(name: &str) -> String {
    format!("{name}.{}", std::process::id())
}

#[test]
fn show_prints_the_columns_of_a_list() {
    let mut label = ColumnBuilder::numbers(DType::parse("<i4").unwrap()).unwrap();
    let mut image = ColumnBuilder::arrays(DType::parse("|u1").unwrap(), 2).unwrap();
    let mut words = ColumnBuilder::lists(ColumnBuilder::strings());
    for number in 0..3_u8 {
        label.push_number(&i32::from(number).to_le_bytes()).unwrap();
        image.push_array(&[1, number.into()], &[7; 3][..number.into()]).unwrap();
        words.push_list().unwrap();
    }
    label.push_none().unwrap();
    image.push_none().unwrap();
    words.push_none().unwrap();
    let fields = [("label", label), ("image", image), ("words", words)];
    let mut records = ColumnBuilder::records(fields).unwrap();
    records.push_records(4).unwrap();
    let list = List::create(records, &Options::new()).unwrap();
    let shown = printed(&["show", &list.array().unwrap().handle()]);
    let columns = "items  4 records\n  label  4 numbers of <i4, 1 None\n  \
                   image  4 arrays of |u1, dimensions 2, 1 None\n  words  4 lists, 1 None\n    \
                   items  0 strings\n";
    assert!(shown.ends_with(columns), "{shown}");
}

#[test]
fn show_prints_values_and_statistics() {
    let name = unique("cli.show");
    let array = named(&name);
    for text in [name, array.transpose().handle()] {
        let shown = printed(&["show", &text]);
        assert!(shown.contains("minimum  -2\nmean     2\nmaximum  6"), "{shown}");
    }
    assert!(printed(&["show", &array.transpose().handle()]).contains("values   1 3 -2 6"));
}

/// Returns the text that `show` prints after the values of an array with these elements.
fn statistics<T: Element>(elements: &[T]) -> String {
    let array = Array::create(T::dtype(), &[elements.len() as u64], &Options::default()).unwrap();
    for (index, &value) in elements.iter().enumerate() {
        array.set(&[index as u64], value).unwrap();
    }
    let shown = printed(&["show", &array.handle()]);
    shown.split_once("values ").unwrap().1.split_once('\n').unwrap().1.replace('\n', "; ")
}

#[test]
fn statistics_are_of_the_elements_as_they_are() {
    assert_eq!(statistics(&[1u8, 2, 4, 2]), "minimum  1; mean     2.25; maximum  4; ");
    assert_eq!(
        statistics(&[u64::MAX, u64::MAX - 1]).split("; ").next(),
        Some("minimum  18446744073709551614")
    );
    let least = i64::MIN;
    let mean = i64::MIN as f64;
    assert_eq!(
        statistics(&[least, least]),
        format!("minimum  {least}; mean     {mean}; maximum  {least}; ")
    );
    assert_eq!(statistics(&[0.1f32, 0.5]).split("; ").next(), Some("minimum  0.1"));
    assert_eq!(statistics(&[1.5f64, f64::NAN, 0.5]), "minimum  NaN; mean     NaN; maximum  NaN; ");
    assert_eq!(statistics(&[f64::INFINITY, 1.0]), "minimum  1; mean     inf; maximum  inf; ");
    assert_eq!(statistics(&[true, false]), "minimum  false; mean     0.5; maximum  true; ");
    assert_eq!(
        statistics(&[half::f16::from_f32(0.1)]),
        "minimum  0.099975586; mean     0.0999755859375; maximum  0.099975586; "
    );
    assert_eq!(
        statistics(&[Complex::new(1.5f32, -2.0), Complex::new(0.5, 1.0)]),
        "mean     1-0.5i; "
    );
    assert_eq!(statistics::<f64>(&[]), "");
}

#[test]
fn values_have_as_many_digits_as_the_elements() {
    let array = Array::create(DType::parse("<c8").unwrap(), &[1], &Options::default()).unwrap();
    array.set(&[0], Complex::new(0.1f32, -2.5)).unwrap();
    assert!(printed(&["show", &array.handle()]).contains("values   0.1-2.5i\n"));
}

#[test]
fn an_array_of_bytes_without_a_meaning_has_no_statistics() {
    let array = Array::create(DType::parse("|S3").unwrap(), &[2], &Options::default()).unwrap();
    let shown = printed(&["show", &array.handle()]);
    assert!(shown.ends_with("bytes    00 00 00 00 00 00\n"), "{shown}");
}

#[test]
fn ls_lists_an_array_and_rm_takes_its_name_away() {
    let name = unique("cli.ls");
    let array = named(&name);
    assert!(printed(&["ls"]).contains(&name));
    let json: serde_json::Value = serde_json::from_str(&printed(&["ls", "--json"])).unwrap();
    let listed = json["segments"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["name"] == name.as_str())
        .unwrap();
    assert_eq!((&listed["dtype"], &listed["shape"]), (&"<i2".into(), &serde_json::json!([2, 2])));
    assert_eq!(listed["holders"][0]["pid"], std::process::id());
    assert_eq!((&listed["tickets"], &listed["persists"]), (&0.into(), &false.into()));
    assert!(printed(&["ls"]).contains(&format!("{} commands-", std::process::id())));
    printed(&["rm", &name]);
    assert!(!shmarray(&["show", &name]).status.success());
    assert_eq!(array.get::<i16>(&[1, 1]).unwrap(), 6);
}

/// Returns the entry of an array in `ls --json`.
fn listed(array: &Array) -> Option<serde_json::Value> {
    let all: serde_json::Value = serde_json::from_str(&printed(&["ls", "--json"])).unwrap();
    let all = all["segments"].as_array().unwrap().clone();
    all.into_iter().find(|one| one["segment"] == array.descriptor().segment.to_string())
}

#[test]
fn ls_tells_a_cell_by_its_number_and_counts_the_messages_that_hold() {
    let array = Array::create(DType::parse("<i2").unwrap(), &[3], &Options::default()).unwrap();
    let handle = array.handle_to_send().unwrap();
    let text = array.descriptor().segment.to_string();
    assert!(text.contains('.'), "{text}");
    assert_eq!(listed(&array).unwrap()["tickets"], 1);
    assert!(printed(&["ls"]).lines().any(|line| line.starts_with(&text)));
    assert!(printed(&["show", &array.handle()]).contains(&text));
    shmarray::discard(&handle).unwrap();
    assert_eq!(listed(&array).unwrap()["tickets"], 0);
}

/// Returns what `ls --json` prints in a directory.
fn listing_of(directory: &Path) -> serde_json::Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shmarray"));
    let output = command.args(["ls", "--json"]).env("SHMARRAY_DIR", directory).output();
    serde_json::from_slice(&output.unwrap().stdout).unwrap()
}

fn all_in(directory: &Path) -> Vec<serde_json::Value> {
    listing_of(directory)["segments"].as_array().unwrap().clone()
}

fn bytes_of(all: &[serde_json::Value], kind: &str) -> u64 {
    all.iter()
        .filter(|one| one["kind"] == kind)
        .map(|one| one["segment_bytes"].as_u64().unwrap())
        .sum()
}

#[test]
fn ls_tells_arrays_from_what_pools_keep() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let idle_pool = maker::IdlePool::new(directory.path(), None);
    let all = all_in(directory.path());
    assert!(
        all.iter().all(|one| one["kind"] == "pool" && one["holders"][0]["pid"] == idle_pool.pid()),
        "{all:?}"
    );
    assert!(bytes_of(&all, "pool") >= 80_000, "{all:?}");
    drop(idle_pool);
    assert_eq!(all_in(directory.path()), [] as [serde_json::Value; 0]);
}

#[test]
fn ls_shows_what_a_dead_process_held_or_sent_as_held_by_nobody() {
    for deed in ["hold", "send in a pipe", "send out of band"] {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        maker::dies(deed, directory.path(), None);
        let all = all_in(directory.path());
        let is_remains = |one: &serde_json::Value| {
            (&one["kind"], &one["tickets"], &one["holders"])
                == (&"remains".into(), &0.into(), &serde_json::json!([]))
        };
        assert!(
            all.iter().all(is_remains) && bytes_of(&all, "remains") >= 80_000,
            "{deed}: {all:?}"
        );
    }
}

#[test]
fn ls_shows_what_a_dead_process_sent_to_its_living_family_as_held_by_a_message() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let _living = maker::IdlePool::new(directory.path(), Some(FAMILY));
    maker::dies("send out of band", directory.path(), Some(FAMILY));
    let mut all = all_in(directory.path());
    all.retain(|one| one["tickets"] == 1);
    assert!(
        all.len() == 1 && all[0]["kind"] == "array" && all[0]["holders"] == serde_json::json!([]),
        "{all:?}"
    );
}

/// Constants of core/FORMAT.md.
const FAMILY: u64 = 1 << 52 | 7 << 32;

#[test]
fn ls_sums_up_all_bytes_in_80_columns() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let _holder = maker::IdlePool::new(directory.path(), None);
    maker::dies("hold", directory.path(), None);
    let output = Command::new(env!("CARGO_BIN_EXE_shmarray"))
        .arg("ls")
        .env("SHMARRAY_DIR", directory.path())
        .output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    let all = all_in(directory.path());
    let bytes @ [arrays, pools, remains] =
        ["array", "pool", "remains"].map(|kind| bytes_of(&all, kind));
    let total = format!("arrays {arrays}, channels 0, pools {pools}, remains {remains} bytes\n");
    let free = format!("{}: ", directory.path().display());
    let (_, last) = text.split_once(&total).expect(&text);
    assert!(last.starts_with(&free) && last.ends_with(" bytes free\n"), "{text}");
    let totals = &listing_of(directory.path())["totals"];
    let in_json = ["array", "pool", "remains"].map(|kind| totals[kind]["bytes"].as_u64().unwrap());
    assert_eq!(in_json, bytes);
    assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    assert!(pools > 0 && remains > 0, "{text}");
    assert_eq!(bytes.iter().sum::<u64>(), allocated_bytes(directory.path()), "{text}");
}

/// Returns the bytes that the files there use, without the registry.
fn allocated_bytes(directory: &Path) -> u64 {
    let files = std::fs::read_dir(directory).unwrap().map(Result::unwrap);
    let files =
        files.filter(|file| !file.file_name().to_str().unwrap().starts_with("shmarray-registry-"));
    files.map(|file| file.metadata().unwrap().blocks() * 512).sum()
}

#[test]
fn ls_says_what_persists() {
    let name = unique("cli.kept");
    let options = Options::new().name(&name).persist(true);
    let array = Array::create(DType::parse("<i2").unwrap(), &[3], &options).unwrap();
    assert_eq!(listed(&array).unwrap()["persists"], true);
    printed(&["rm", &name]);
    assert_eq!(listed(&array).unwrap()["persists"], false);
}

#[test]
fn a_mistake_is_told_and_fails() {
    let output = shmarray(&["show", "nobody.at.all"]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("nothing is named \"nobody.at.all\""));
    assert!(printed(&["sweep"]).starts_with("gave back "));
}

/// Who mistypes a name has no use for a backtrace, whoever sets the variable.
#[test]
fn a_mistake_is_told_in_one_line_without_a_backtrace() {
    for arguments in [&["show", "nobody"][..], &["rm", "nobody"], &["watch", "nobody"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shmarray"));
        let output = command.args(arguments).env("RUST_BACKTRACE", "full").output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.starts_with("Error: ") && said.lines().count() == 1, "{arguments:?}: {said}");
        assert!(said.contains("nothing is named \"nobody\" in "), "{arguments:?}: {said}");
    }
}

fn picture_of(array: &Array) -> (png::ColorType, (u32, u32), Vec<u8>) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("picture.png");
    printed(&["show", &array.handle(), "--png", path.to_str().unwrap()]);
    let file = std::io::BufReader::new(std::fs::File::open(path).unwrap());
    let mut reader = png::Decoder::new(file).read_info().unwrap();
    let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut bytes).unwrap();
    (info.color_type, (info.width, info.height), bytes)
}

#[test]
fn show_writes_a_picture() {
    let gray = Array::create(DType::parse("<f4").unwrap(), &[1, 3], &Options::new()).unwrap();
    for (at, value) in [-1.0f32, f32::NAN, 1.0].into_iter().enumerate() {
        gray.set(&[0, at as u64], value).unwrap();
    }
    assert_eq!(picture_of(&gray), (png::ColorType::Grayscale, (3, 1), vec![0, 0, 255]));
    assert_eq!(picture_of(&gray.transpose()).1, (1, 3));
    let rgb = Array::create(DType::parse("|u1").unwrap(), &[2, 1, 3], &Options::new()).unwrap();
    rgb.set(&[1, 0, 2], 7u8).unwrap();
    assert_eq!(picture_of(&rgb), (png::ColorType::Rgb, (1, 2), vec![0, 0, 0, 0, 0, 7]));
    let drawn = printed(&["show", &rgb.handle(), "--draw"]);
    assert!(drawn.ends_with("\x1b[38;2;0;0;0m\x1b[48;2;0;0;7m▀\x1b[0m\n"), "{drawn:?}");
}

#[test]
fn what_is_no_picture_is_refused_and_no_file_is_made() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("picture.png");
    for (dtype, shape) in
        [("<f4", &[3][..]), ("<f4", &[2, 3, 2]), ("<c8", &[2, 2]), ("<f4", &[0, 2])]
    {
        let array = Array::create(DType::parse(dtype).unwrap(), shape, &Options::new()).unwrap();
        let output = shmarray(&["show", &array.handle(), "--png", path.to_str().unwrap()]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.starts_with("Error: a picture has "), "{said}");
        assert!(!path.exists());
    }
}

#[test]
fn there_are_manual_pages_and_completions_of_every_command() {
    let directory = tempfile::tempdir().unwrap();
    printed(&["man", directory.path().to_str().unwrap()]);
    let help = printed(&["help"]);
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    let (commands, _) = commands.split_once("\n\n").unwrap();
    // Where lines are wrapped, the rest of one is further to the right.
    let lines = commands.lines().filter(|line| !line.starts_with("   "));
    let names: Vec<_> = lines.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.contains(&"ls") && names.contains(&"man"), "{help}");
    for name in names.iter().filter(|name| **name != "help") {
        let page = directory.path().join(format!("shmarray-{name}.1"));
        let page = std::fs::read_to_string(&page).unwrap();
        let title = page.lines().find(|line| line.starts_with(".TH ")).unwrap();
        assert!(title.starts_with(&format!(".TH shmarray-{name} 1 2")), "{title}");
        let source = concat!("\"shmarray ", env!("CARGO_PKG_VERSION"), "\"");
        assert!(title.contains(source), "{title}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let completions = printed(&["completions", shell]);
        assert!(names.iter().all(|name| completions.contains(name)), "{completions}");
    }
}

/// Returns the exit status and standard error of a command whose output goes to that file.
fn ended(arguments: &[&str], stdout: impl Into<Stdio>) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shmarray"));
    let output = command.args(arguments).stdout(stdout).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_command_whose_output_nobody_reads_ends_quietly() {
    let name = unique("cli.unread");
    let _array = named(&name);
    for arguments in [
        &["ls"][..],
        &["ls", "--json"],
        &["show", &name],
        &["sweep"],
        &["doctor"],
        &["--help"],
        &["metrics"],
        &["completions", "bash"],
    ] {
        let (end, other) = UnixStream::pair().unwrap();
        drop(other);
        assert_eq!(
            ended(arguments, OwnedFd::from(end)),
            (Some(141), String::new()),
            "{arguments:?}"
        );
    }
}

#[test]
fn output_that_finds_no_room_is_told_and_fails() {
    for arguments in [&["ls"][..], &["sweep"], &["doctor"], &["--help"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let (code, said) = ended(arguments, full);
        assert_eq!(code, Some(1), "{arguments:?}: {said}");
        assert!(said.starts_with("Error: No space left on device"), "{arguments:?}: {said}");
    }
}
