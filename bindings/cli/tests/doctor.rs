//! The findings of doctor for this machine and for directories that the tests make.
#![allow(missing_docs)]
#![cfg(target_os = "linux")]

mod maker;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use shmarray::{Array, DType, Options};
use tempfile::TempDir;

fn shmarray(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shmarray"));
    command.args(arguments).env("SHMARRAY_DIR", directory).output().unwrap()
}

/// Returns doctor's findings, and whether it succeeded.
fn findings(output: &Output) -> Vec<Value> {
    let read: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = read.as_array().unwrap().clone();
    let problem = findings.iter().any(|finding| finding["verdict"] == "problem");
    assert_eq!(output.status.code(), Some(i32::from(problem)), "{read}");
    findings
}

fn finding(directory: &Path, check: &str) -> Value {
    one(findings(&shmarray(directory, &["doctor", "--json"])), check)
}

fn one(findings: Vec<Value>, check: &str) -> Value {
    findings.into_iter().find(|finding| finding["check"] == check).unwrap()
}

#[test]
fn maker() {
    maker::run();
}

#[track_caller]
fn says(finding: &Value, verdict: &str, found: &str) {
    assert_eq!(finding["verdict"], verdict, "{finding}");
    assert!(finding["found"].as_str().unwrap().contains(found), "{finding}");
}

/// Returns the directory of this process's segments.
fn home() -> PathBuf {
    std::env::var_os("SHMARRAY_DIR")
        .filter(|path| !path.is_empty())
        .map_or("/dev/shm".into(), PathBuf::from)
}

/// Returns an array, the name of its file, and a directory on the same file system.
fn array_and_directory() -> (Array, String, TempDir) {
    let dtype =
        DType::parse(r#"{"descr":[["first","<i2"],["second","<i2"]],"itemsize":4}"#).unwrap();
    let array = Array::create(dtype, &[200, 200], &Options::default()).unwrap();
    // The array has a segment of its own, because its dtype is too long for a cell.
    let file = format!("shmarray-{}", array.descriptor().segment);
    (array, file, tempfile::tempdir_in(home()).unwrap())
}

#[test]
fn every_check_has_its_line_and_no_line_is_empty() {
    let directory = tempfile::tempdir().unwrap();
    let findings = findings(&shmarray(directory.path(), &["doctor", "--json"]));
    let checks: Vec<_> =
        findings.iter().map(|finding| finding["check"].as_str().unwrap()).collect();
    let first = [
        "kernel",
        "directory",
        "file system",
        "trial",
        "size",
        "memory limit",
        "huge pages",
        "reserved pages",
        "logout",
    ];
    let limits = ["open files", "mappings", "address space", "file size", "locked memory"];
    let last = ["segments", "half-made", "strange files", "names", "registry"];
    assert_eq!(checks, [&first[..], &limits, &last].concat());
    for finding in findings {
        assert_ne!(finding["found"], "");
        assert_eq!(finding["remedy"].is_null(), finding["verdict"] == "ok", "{finding}");
    }
}

#[test]
fn text_says_the_same_as_json() {
    let directory = tempfile::tempdir().unwrap();
    let text = String::from_utf8(shmarray(directory.path(), &["doctor"]).stdout).unwrap();
    for finding in findings(&shmarray(directory.path(), &["doctor", "--json"])) {
        let check = finding["check"].as_str().unwrap();
        assert!(
            text.contains(&format!("{:7}  {check}", finding["verdict"].as_str().unwrap())),
            "{check}: {text}"
        );
    }
    assert!(text.lines().last().unwrap().starts_with("19 checks: "), "{text}");
}

#[test]
fn a_missing_directory_is_a_problem_and_fails() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("none");
    let found = finding(&missing, "directory");
    says(&found, "problem", "does not exist");
    assert!(found["remedy"].as_str().unwrap().contains("mkdir -p"));
    assert_eq!(shmarray(&missing, &["doctor"]).status.code(), Some(1));
}

#[test]
fn doctor_tries_the_directory_and_leaves_nothing_there() {
    let directory = tempfile::tempdir_in(home()).unwrap();
    says(&finding(directory.path(), "trial"), "ok", "a mapping keeps the lock of its file");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

/// Runs the command for a directory on an overlay, in a mount namespace of its own.
fn on_an_overlay(root: &Path, arguments: &[&str]) -> Output {
    let script = "mount -t overlay -o lowerdir=below,upperdir=above,workdir=work none merged \
                  && SHMARRAY_DIR=$PWD/merged exec \"$0\" \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "bash", "-c", script, env!("CARGO_BIN_EXE_shmarray")]);
    command.args(arguments).current_dir(root).output().unwrap()
}

/// Says why an overlay cannot be mounted here. Makes the directories that one needs.
fn mounts_or_skips(root: &Path, test: &str) -> bool {
    for name in ["below", "above", "work", "merged"] {
        fs::create_dir(root.join(name)).unwrap();
    }
    let version = on_an_overlay(root, &["--version"]);
    if !version.status.success() {
        eprintln!("\nskipped {test}: {}", String::from_utf8_lossy(&version.stderr));
    }
    version.status.success()
}

#[test]
fn an_overlay_is_a_problem_and_sweep_says_so_too() {
    let root = tempfile::tempdir_in("/dev/shm").unwrap();
    if !mounts_or_skips(root.path(), "an_overlay_is_a_problem_and_sweep_says_so_too") {
        return;
    }
    let swept = on_an_overlay(root.path(), &["sweep"]);
    let said = String::from_utf8_lossy(&swept.stderr);
    assert!(!swept.status.success() && said.contains("merged cannot hold arrays"), "{said}");
    let found = one(findings(&on_an_overlay(root.path(), &["doctor", "--json"])), "trial");
    says(&found, "problem", "every holder of an array looks dead");
    assert!(found["remedy"].as_str().unwrap().contains("SHMARRAY_DIR"), "{found}");
    assert_eq!(fs::read_dir(root.path().join("above")).unwrap().count(), 0);
}

#[test]
fn a_held_segment_is_no_leftover() {
    let (array, file, directory) = array_and_directory();
    fs::hard_link(home().join(&file), directory.path().join(&file)).unwrap();
    says(&finding(directory.path(), "segments"), "ok", "1 array");
    drop(array);
}

#[test]
fn an_array_in_a_cell_is_one_and_no_stranger() {
    let array = Array::create(DType::parse("<i2").unwrap(), &[3], &Options::default()).unwrap();
    let directory = tempfile::tempdir_in(home()).unwrap();
    let file = format!("shmarray-{}", array.descriptor().segment.id);
    fs::hard_link(home().join(&file), directory.path().join(&file)).unwrap();
    says(&finding(directory.path(), "segments"), "ok", "1 array");
    says(&finding(directory.path(), "strange files"), "ok", "none");
    drop(array);
}

#[test]
fn a_segment_that_a_message_holds_is_no_leftover() {
    let (array, file, directory) = array_and_directory();
    let handle = array.handle_to_send().unwrap();
    fs::hard_link(home().join(&file), directory.path().join(&file)).unwrap();
    drop(array);
    says(&finding(directory.path(), "segments"), "ok", "1 held by messages alone");
    shmarray::discard(&handle).unwrap();
}

#[test]
fn doctor_recommends_sweep_for_memory_of_dead_processes() {
    let directory = tempfile::tempdir_in(home()).unwrap();
    maker::dies("hold", directory.path(), None);
    let found = finding(directory.path(), "segments");
    says(&found, "look", "no arrays; dead processes left ");
    assert_eq!(found["remedy"], "shmarray sweep");
    assert_eq!(finding(directory.path(), "segments"), found, "doctor gives nothing back");
    assert!(shmarray(directory.path(), &["sweep"]).status.success());
    says(&finding(directory.path(), "segments"), "ok", "none");
}

#[test]
fn doctor_lists_pools_with_their_processes() {
    let directory = tempfile::tempdir_in(home()).unwrap();
    let idle_pool = maker::IdlePool::new(directory.path(), None);
    let found = finding(directory.path(), "segments");
    says(&found, "ok", "no arrays; pools keep ");
    says(&found, "ok", &format!(": {} doctor-", idle_pool.pid()));
    drop(idle_pool);
    says(&finding(directory.path(), "segments"), "ok", "none");
}

#[test]
fn a_segment_in_the_making_is_told_from_one_whose_maker_died() {
    let (array, file, directory) = array_and_directory();
    let hidden = directory.path().join(format!("shmarray-new-{}", array.descriptor().segment));
    fs::hard_link(home().join(&file), &hidden).unwrap();
    says(&finding(directory.path(), "half-made"), "ok", "1 being made");
    drop(array);
    says(&finding(directory.path(), "half-made"), "look", "1 file of makers that died");
    assert!(shmarray(directory.path(), &["sweep"]).status.success());
    says(&finding(directory.path(), "half-made"), "ok", "none");
}

#[test]
fn files_that_are_no_segments_are_strange_and_a_sweep_leaves_them_alone() {
    let directory = tempfile::tempdir().unwrap();
    let noise = directory.path().join(format!("shmarray-{}", "a".repeat(24)));
    fs::write(&noise, "noise").unwrap();
    let found = finding(directory.path(), "strange files");
    says(&found, "look", "1 file named like a segment but without a valid header");
    assert!(found["remedy"].as_str().unwrap().starts_with("look at them"), "{found}");
    assert!(shmarray(directory.path(), &["sweep"]).status.success());
    assert_eq!(finding(directory.path(), "strange files"), found);
    fs::remove_file(&noise).unwrap();
    symlink("/etc/passwd", &noise).unwrap();
    assert_eq!(finding(directory.path(), "strange files"), found);
}

#[test]
fn a_name_that_leads_nowhere_is_told_and_the_remedy_helps() {
    let (_array, file, directory) = array_and_directory();
    fs::copy(home().join(&file), directory.path().join("shmarray-name-astray")).unwrap();
    let found = finding(directory.path(), "names");
    says(&found, "look", "1 of them without a segment: astray");
    assert_eq!(found["remedy"], "shmarray rm astray");
    assert!(shmarray(directory.path(), &["rm", "astray"]).status.success());
    says(&finding(directory.path(), "names"), "ok", "none");
}

#[test]
fn the_registry_is_ours_alone() {
    let directory = tempfile::tempdir().unwrap();
    says(&finding(directory.path(), "registry"), "ok", "none yet");
    let registry = registry(directory.path());
    fs::write(&registry, "").unwrap();
    for (mode, verdict) in [(0o600, "ok"), (0o666, "look"), (0o400, "look")] {
        fs::set_permissions(&registry, fs::Permissions::from_mode(mode)).unwrap();
        says(
            &finding(directory.path(), "registry"),
            verdict,
            if mode == 0o600 { "ours alone" } else { "has mode" },
        );
    }
}

#[test]
fn a_registry_that_is_none_is_no_problem_since_the_library_uses_another() {
    let directory = tempfile::tempdir_in(home()).unwrap();
    let registry = registry(directory.path());
    fs::create_dir(&registry).unwrap();
    says(
        &finding(directory.path(), "registry"),
        "look",
        "is no file: the library will make another",
    );
    maker::dies("hold", directory.path(), None);
    let file_name = registry.file_name().unwrap().to_str().unwrap();
    says(
        &finding(directory.path(), "registry"),
        "look",
        &format!("is no file: the library uses {file_name}-"),
    );
    says(&finding(directory.path(), "segments"), "look", "dead processes left");
}

/// Returns the path of this user's registry.
fn registry(directory: &Path) -> PathBuf {
    directory.join(format!("shmarray-registry-{}", fs::metadata(directory).unwrap().uid()))
}

#[test]
fn limits_are_those_of_the_shell_that_asks() {
    let directory = tempfile::tempdir().unwrap();
    let limited = "ulimit -v 4194304; ulimit -f 2048; ulimit -n 256; exec \"$0\" doctor --json";
    let mut command = Command::new("bash");
    command
        .args(["-c", limited, env!("CARGO_BIN_EXE_shmarray")])
        .env("SHMARRAY_DIR", directory.path());
    let findings = findings(&command.output().unwrap());
    says(&one(findings.clone(), "address space"), "look", "4 GiB");
    says(&one(findings.clone(), "file size"), "look", "2 MiB");
    says(&one(findings, "open files"), "look", "256");
}
