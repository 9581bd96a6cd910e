//! The commands end, and report, in directories that have files of other users, idle pools and
//! memory of dead processes.
#![allow(missing_docs)]
#![cfg(target_os = "linux")]

#[path = "../../../core/tests/behaviour/support/mod.rs"]
mod support;

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use serde_json::Value;
use shmarray::{Array, DType, Options, Pipe};
use support::{POOL, Peer, directory, scenario, serve, this_test};

const MIB: u64 = 1 << 20;
const ID: &str = "abcdefghijklmnopqrstuvwx";
const STRANGER: u32 = 65_534;

/// A command that takes longer than two minutes, where it needs less than a second, is killed and
/// reported as hanging.
const WATCHDOG: Duration = Duration::from_secs(120);

/// Runs the command, which must end.
fn shmarray(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shmarray"));
    let running =
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = running.id();
    let (tell, ended) = mpsc::channel();
    thread::spawn(move || tell.send(running.wait_with_output()));
    match ended.recv_timeout(WATCHDOG) {
        Ok(output) => output.unwrap(),
        Err(_) => {
            support::kill(pid as i32);
            panic!(
                "the watchdog waited {} s for shmarray {}",
                WATCHDOG.as_secs(),
                arguments.join(" ")
            );
        }
    }
}

fn printed(arguments: &[&str]) -> String {
    let output = shmarray(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn json(arguments: &[&str]) -> Vec<Value> {
    let read: Value = serde_json::from_slice(&shmarray(arguments).stdout).unwrap();
    read.as_array().unwrap().clone()
}

fn listed() -> Value {
    serde_json::from_slice(&shmarray(&["ls", "--json"]).stdout).unwrap()
}

fn segments() -> Vec<Value> {
    listed()["segments"].as_array().unwrap().clone()
}

fn u1() -> DType {
    DType::parse("|u1").unwrap()
}

fn bytes(count: u64) -> Array {
    Array::create(u1(), &[count], &Options::default()).unwrap()
}

/// Creates a file of another user, which this user can list, and locks all its bytes.
fn strangers_locked_file(name: &str) -> File {
    let path = directory().join(name);
    let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    file.set_permissions(fs::Permissions::from_mode(0o600)).unwrap();
    chown(&path, Some(STRANGER), None).unwrap();
    let l_type = libc::F_WRLCK as libc::c_short;
    let l_whence = libc::SEEK_SET as libc::c_short;
    fcntl(
        &file,
        FcntlArg::F_OFD_SETLK(&libc::flock { l_type, l_whence, l_start: 0, l_len: 0, l_pid: 0 }),
    )
    .unwrap();
    file
}

fn is_root_or_skips() -> bool {
    let is_root = nix::unistd::geteuid().is_root();
    if !is_root {
        eprintln!("\nskipped {}: it needs root", this_test());
    }
    is_root
}

/// Asserts that each command ends, that `ls` and `sweep` succeed, and that `doctor` prints
/// findings.
fn all_commands_end_beside(file: &str) {
    if !is_root_or_skips() {
        return;
    }
    scenario(|| {
        let locked = strangers_locked_file(file);
        for arguments in [&["ls"][..], &["ls", "--json"], &["sweep"]] {
            printed(arguments);
        }
        for arguments in
            [&["doctor"][..], &["doctor", "--json"], &["show", "camera"], &["rm", "camera"]]
        {
            shmarray(arguments);
        }
        assert!(!json(&["doctor", "--json"]).is_empty());
        drop(locked);
        fs::remove_file(directory().join(file)).unwrap();
    });
}

#[test]
fn every_command_ends_beside_a_strangers_locked_file_in_the_place_of_a_segment() {
    all_commands_end_beside(&format!("shmarray-{ID}"));
}

#[test]
fn every_command_ends_beside_a_strangers_locked_file_in_the_place_of_a_name() {
    all_commands_end_beside("shmarray-name-camera");
}

#[test]
fn every_command_ends_beside_a_strangers_locked_file_in_the_place_of_the_registry() {
    all_commands_end_beside("shmarray-registry-0");
}

/// Makes what it is told to, then is idle or is killed.
#[test]
#[ignore = "it is another process of the tests"]
fn another() {
    let mut pipes = Vec::new();
    let mut arrays = Vec::new();
    serve(|line| {
        match line {
            "pool" => drop(bytes(8 * MIB)),
            "become a stranger" => {
                nix::unistd::setgid(STRANGER.into()).unwrap();
                nix::unistd::setuid(STRANGER.into()).unwrap();
                let options = Options::new().name("camera");
                arrays.push(Array::create(u1(), &[MIB], &options).unwrap());
                return std::process::id().to_string();
            }
            program if program.starts_with('/') => {
                let ls = Command::new(program).args(["ls", "--json"]).output().unwrap();
                assert!(ls.status.success(), "{ls:?}");
                return String::from_utf8(ls.stdout).unwrap().replace('\n', " ");
            }
            _ => {
                let pipe = Pipe::pair().unwrap();
                pipe.0.send(b"", &[&bytes(200_000)], None).unwrap();
                pipes.push(pipe);
            }
        }
        "done".to_owned()
    });
}

/// Runs a scenario with a pool.
fn pooled(body: impl FnOnce()) {
    scenario(|| {
        // SAFETY: `set_var` needs that no other thread reads the environment. This process was
        // started for this scenario alone and has no other thread that does.
        #[allow(unsafe_code)]
        unsafe {
            std::env::set_var(POOL, (64 * MIB).to_string());
        }
        body();
    });
}

#[test]
fn ls_and_doctor_account_for_what_an_idle_pool_keeps() {
    pooled(|| {
        let mut another = Peer::start(another);
        assert_eq!(another.ask("pool"), "done");
        let listed: u64 = segments().iter().map(|one| one["segment_bytes"].as_u64().unwrap()).sum();
        assert!(listed >= 8 * MIB, "ls lists {listed} bytes, and a process keeps {}", 8 * MIB);
        let doctor = json(&["doctor", "--json"]);
        let segments = doctor.iter().find(|finding| finding["check"] == "segments").unwrap();
        assert_ne!(segments["found"], "none", "{segments}");
        another.end();
    });
}

#[test]
fn ls_does_not_list_a_message_of_a_dead_process_as_if_it_were_under_way() {
    pooled(|| {
        let mut another = Peer::start(another);
        assert_eq!(another.ask("message"), "done");
        let tickets = || segments().iter().map(|one| one["tickets"].as_u64().unwrap()).sum::<u64>();
        assert_eq!(tickets(), 1, "it is under way while its pipe is there");
        another.kill();
        assert_eq!(tickets(), 0, "nobody can receive it");
        printed(&["sweep"]);
    });
}

/// Root may read everything, and learns of each process whether it lives; another user learns what
/// it does not see.
#[test]
fn ls_lists_what_the_kernel_lets_this_user_read_and_says_what_else_there_is() {
    if !is_root_or_skips() {
        return;
    }
    scenario(|| {
        fs::set_permissions(directory(), fs::Permissions::from_mode(0o1777)).unwrap();
        let programs = tempfile::tempdir().unwrap();
        fs::set_permissions(&programs, fs::Permissions::from_mode(0o755)).unwrap();
        let program = programs.path().join("shmarray");
        fs::copy(env!("CARGO_BIN_EXE_shmarray"), &program).unwrap();
        let mut stranger = Peer::start(another);
        let pid: u32 = stranger.ask("become a stranger").parse().unwrap();
        let ours = bytes(MIB);

        let camera = || segments().into_iter().find(|one| one["name"] == "camera").unwrap();
        assert_eq!((&camera()["kind"], &camera()["shape"][0]), (&"array".into(), &MIB.into()));
        assert_eq!(camera()["holders"][0]["pid"], pid);
        assert_eq!(listed()["other_users"], serde_json::json!([]));

        let theirs: Value = serde_json::from_str(&stranger.ask(program.to_str().unwrap())).unwrap();
        assert_eq!(theirs["segments"].as_array().unwrap().len(), 1, "{theirs}");
        let [root] = &theirs["other_users"].as_array().unwrap()[..] else { panic!("{theirs}") };
        assert_eq!(
            (&root["uid"], &root["user"], &root["files"]),
            (&0.into(), &"root".into(), &1.into())
        );
        assert!(root["bytes"].as_u64().unwrap() >= MIB, "{root}");

        stranger.kill();
        assert_eq!(camera()["kind"], "remains");
        assert!(printed(&["ls"]).contains("of user nobody\n"), "{}", printed(&["ls"]));
        let doctor = json(&["doctor", "--json"]);
        let found = doctor.iter().find(|finding| finding["check"] == "segments").unwrap();
        assert!(!found.to_string().contains("sweep"), "root's sweep leaves it: {found}");
        let mut sweep = Command::new(&program);
        assert!(sweep.arg("sweep").uid(STRANGER).status().unwrap().success());
        drop(ours);
    });
}
