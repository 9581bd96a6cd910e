//! The stage of a crash: a directory of its own, a survivor with arrays, and what dead processes
//! left.
//!
//! Every process is a fork of one that has never used the library. It talks by lines: first it says
//! the handles of the arrays that it holds, then it does as it is told.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use shmarray::{Access, Array, DType, Layout, Options, Order, Pipe, Received, Sent};

use crate::operations::channels;
use crate::process::{Line, Outcome, Process, all_ended_well, kill, start};
use crate::support::segments_in;

/// What a stage has beside `kept`, an array without a name that the survivor holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Prop {
    /// An array with a name, which the survivor holds.
    Named,
    /// An array that others may read (0644), and that is held lock-only therefore.
    Shared,
    /// An array with a name, which the survivor makes and drops before the first step: the
    /// processes that attached it meanwhile are its only holders.
    Contested,
    /// As `Contested`, without a name.
    Given,
    /// A small array, in a cell.
    Cell,
    /// A small array that the survivor drops as well.
    GivenCell,
    /// A message with what is given, which nobody has received.
    Sent,
    /// A message that nobody receives, ever.
    Forgotten,
    /// An array that persists, and that nobody holds.
    Lasting,
    /// A channel with two messages, which the survivor has open: of these kinds.
    Queue,
    Dropping,
    Broadcast,
    Latest,
    /// A queue whose messages are from a sender that has left: the next one is the only one.
    Sole,
    /// A channel of handles, without messages.
    Handles,
    /// What a killed process left: an array, one with a name, and entries in those of the survivor.
    Leftovers,
}

/// The bytes of an array that the operation makes, in a cell or in a file of its own: zeros. All
/// others have a pattern.
pub(crate) const NEW: u64 = 64;
pub(crate) const NEW_FILE: u64 = 71_000;
const OLD: u64 = 200;
const OLD_FILE: u64 = 70_000;

/// Returns the initial contents of an array of that length. Computed once, before any process is
/// forked.
fn expected(length: u64) -> &'static [u8] {
    static PATTERN: LazyLock<Vec<u8>> =
        LazyLock::new(|| (0..OLD_FILE).map(|index| (index % 251) as u8 + 1).collect());
    static ZEROS: [u8; NEW_FILE as usize] = [0; NEW_FILE as usize];
    let whole = if [NEW, NEW_FILE].contains(&length) { &ZEROS[..] } else { &PATTERN[..] };
    &whole[..length as usize]
}

pub(crate) fn options(name: &str) -> Options {
    match name {
        "" => Options::new(),
        name => Options::new().name(name),
    }
}

pub(crate) fn new(bytes: u64, options: &Options) -> shmarray::Result<Array> {
    Array::create(DType::parse("|u1")?, &[bytes], options)
}

fn old(bytes: u64, options: &Options) -> Array {
    let dtype = DType::parse("|u1").unwrap();
    let layout = Layout::contiguous(&[bytes], 1, Order::C).unwrap();
    let pattern = expected(bytes);
    // SAFETY: every element can be read, because the private memory has as many bytes as the layout
    // describes.
    unsafe { Array::share(pattern.as_ptr(), dtype, &layout, options) }.unwrap()
}

/// Checks that every element is what was written first.
pub(crate) fn check(array: &Array) {
    let found = array.to_bytes().unwrap();
    let expected = expected(array.shape()[0]);
    assert!(found == expected, "the data of {} is not what it was", array.descriptor().segment);
}

/// Checks that the data is unchanged, can be written, and can be attached again as the same memory.
fn check_held(array: &Array) {
    check(array);
    if array.is_private() {
        return; // the stores of others may be seen in it, or not
    }
    let handle = array.handle();
    let [writer, reader] =
        [Access::ReadWrite, Access::ReadOnly].map(|access| Array::attach(&handle, access).unwrap());
    writer.set(&[1], 99u8).unwrap();
    assert_eq!([array, &reader].map(|seen| seen.get::<u8>(&[1]).unwrap()), [99, 99]);
    writer.set(&[1], expected(array.shape()[0])[1]).unwrap();
}

/// What a process still has after its operation, until it ends.
#[derive(Default)]
pub(crate) struct Kept {
    pub(crate) arrays: Vec<Array>,
    /// Ends of pipes, guards.
    #[allow(dead_code, reason = "held, and not looked at")]
    pub(crate) others: Vec<Box<dyn std::any::Any>>,
}

impl From<Vec<Array>> for Kept {
    fn from(arrays: Vec<Array>) -> Self {
        Self { arrays, ..Self::default() }
    }
}

/// What a process does with what it holds, until it is told to end.
pub(crate) fn keep(kept: Kept, line: &mut Line) {
    let handles: Vec<_> = kept.arrays.iter().map(|array| array.handle()).collect();
    line.tell(&handles.join("\t"));
    let mut told = line.hear();
    while told.as_deref() == Ok("check") {
        kept.arrays.iter().for_each(check_held);
        line.tell("is well");
        told = line.hear();
    }
    kept.arrays.iter().for_each(check);
}

/// The directory, the survivor, and handles of what is there.
pub(crate) struct Stage {
    pub(crate) directory: PathBuf,
    props: &'static [Prop],
    handles: RefCell<Vec<(&'static str, String)>>,
    survivor: Option<Process>,
    /// Both ends, which every process has.
    pipe: Option<(Pipe, Pipe)>,
}

impl Stage {
    /// `number` is the number of this stage in this process.
    pub(crate) fn new(props: &'static [Prop], number: usize) -> Outcome<Self> {
        let above = PathBuf::from(std::env::var_os("SHMARRAY_STAGES").unwrap());
        // The path always has the same length, so what is allocated for it does not vary.
        expected(OLD_FILE);
        let directory = above.join(format!("stage-{:08}-{number:08}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        // SAFETY: changing the environment needs a process in which nothing reads it, and no other
        // thread of this one does.
        unsafe { std::env::set_var("SHMARRAY_DIR", &directory) };
        let mut stage = Self {
            directory,
            props,
            handles: RefCell::default(),
            survivor: None,
            pipe: Pipe::pair().ok(),
        };
        stage.furnish()?;
        Ok(stage)
    }

    fn furnish(&mut self) -> Outcome<()> {
        let props = self.props;
        let mut survivor = start(|line| self.survive(line));
        let said = survivor.line.hear()?;
        self.survivor = Some(survivor);
        let names = props.iter().filter_map(|prop| prop.held());
        self.handles = ["kept"]
            .into_iter()
            .chain(names)
            .zip(said.split('\t').map(str::to_owned))
            .collect::<Vec<_>>()
            .into();
        Ok(())
    }

    /// Returns a folder for files, beside the directory, in which everything is the library's.
    pub(crate) fn files(&self) -> PathBuf {
        self.directory.with_extension("files")
    }

    fn has(&self, prop: Prop) -> bool {
        self.props.contains(&prop)
    }

    /// Returns an end of the pipe: to send, or to receive what was sent.
    pub(crate) fn end(&self, receives: bool) -> Pipe {
        let (sends, received) = self.pipe.as_ref().expect("is there until all have ended");
        let end = if receives { received } else { sends };
        Pipe::from_fd(end.as_fd().try_clone_to_owned().unwrap()).unwrap()
    }

    /// Returns the handle of an array of the stage: "kept", or as [`Prop::held`], or "left", "left
    /// cell".
    pub(crate) fn handle(&self, what: &str) -> String {
        let handles = self.handles.borrow();
        let found = handles.iter().find(|(name, _)| *name == what);
        found.unwrap_or_else(|| panic!("this stage has no {what}")).1.clone()
    }

    /// Makes what the first uses of all warm processes must not sweep away, so it comes after them.
    /// Returns what a process that was there before shall be told.
    pub(crate) fn leave_leftovers(&self) -> Outcome<String> {
        if !self.has(Prop::Leftovers) {
            return Ok(String::new());
        }
        let handles: Vec<_> =
            self.handles.borrow().iter().map(|(_, handle)| handle.clone()).collect();
        let mut dead = start(|line| {
            let held =
                handles.iter().map(|handle| Array::attach(handle, Access::ReadWrite).unwrap());
            let left = [OLD_FILE, OLD].map(|bytes| old(bytes, &options("")));
            let text = left.each_ref().map(|array| array.handle()).join("\t");
            let _all: Vec<_> = held.chain(left).chain([old(OLD, &options("leftover"))]).collect();
            line.tell(&text);
            let _ = line.hear(); // until it is killed
        });
        let left = dead.line.hear()?;
        kill(dead.pid);
        Ok(left)
    }

    /// Tells a process that was there before where the leftovers are.
    pub(crate) fn know(&self, left: &str) {
        self.handles
            .borrow_mut()
            .extend(["left", "left cell"].into_iter().zip(left.split('\t').map(str::to_owned)));
    }

    /// Runs in the survivor.
    fn survive(&self, line: &mut Line) {
        let kept = old(OLD_FILE, &options(""));
        let held = self.props.iter().filter(|prop| prop.held().is_some());
        let mut held: Vec<_> = held.map(|prop| (*prop, prop.make())).collect();
        let _channels: Vec<_> =
            self.props.iter().filter_map(|prop| channels::furnish(*prop)).collect();
        if self.has(Prop::Lasting) {
            drop(Prop::Lasting.make());
        }
        let is_given = |prop: &Prop| [Prop::Contested, Prop::Given, Prop::GivenCell].contains(prop);
        if self.has(Prop::Sent) {
            let arrays: Vec<_> =
                held.iter().filter(|(prop, _)| is_given(prop)).map(|(_, array)| array).collect();
            assert_eq!(self.end(false).send(b"given", &arrays, None).unwrap(), Sent::Sent);
        }
        let all = [&kept].into_iter().chain(held.iter().map(|(_, array)| array));
        line.tell(&all.map(|array| array.handle()).collect::<Vec<_>>().join("\t"));
        let mut told = line.hear();
        if told.as_deref() == Ok("let go") {
            held.retain(|(prop, _)| !is_given(prop));
            line.tell("let go");
            told = line.hear();
        }
        if told.as_deref() == Ok("holds") {
            let held = held.into_iter().map(|(_, array)| array);
            keep([kept].into_iter().chain(held).collect::<Vec<_>>().into(), line);
        }
    }

    /// Makes the survivor drop what is contested or given.
    pub(crate) fn let_go(&mut self) -> Outcome<()> {
        let survivor = self.survivor.as_mut().expect("furnished");
        survivor.line.tell("let go");
        survivor.line.hear().map(drop)
    }

    /// Checks everything that must hold when the dead are dead. `may_go` are names that the
    /// operation may remove; `may_last` are names of arrays that it may have made persistent.
    pub(crate) fn survives(
        mut self,
        mut others: Vec<Process>,
        may_go: &[&str],
        may_last: &[&str],
        then: fn(&Self),
    ) -> Outcome<()> {
        let mut survivors = vec![self.survivor.take().expect("furnished")];
        let mut held = vec![ask(&mut survivors[0], "holds")?];
        held.extend(others.iter_mut().map(|other| other.line.hear()).collect::<Outcome<Vec<_>>>()?);
        survivors.append(&mut others);
        for survivor in &mut survivors {
            ask(survivor, "check")?;
        }
        let held: Vec<String> =
            held.iter().flat_map(|said| said.split('\t')).map(str::to_owned).collect();
        let held: Vec<_> = held.into_iter().filter(|handle| !handle.is_empty()).collect();
        let seen = Seen { stage: &self, held: &held, may_go, may_last };
        let mut newcomer = start(|line| {
            seen.by_newcomer();
            then(seen.stage);
            line.tell("all is well");
        });
        newcomer.line.hear()?;
        for survivor in &mut survivors {
            ask(survivor, "check")?;
            survivor.line.tell("end");
            survivor.line.says_no_more()?;
        }
        drop(survivors);
        self.pipe = None;
        all_ended_well()?;
        // A channel's last process leaves tickets that nobody has received.
        if self.has(Prop::Forgotten) || self.has(Prop::Handles) {
            start(|_| assert!(shmarray::sweep().is_ok())).line.says_no_more()?;
            all_ended_well()?;
        }
        match segments_in(&self.directory).as_slice() {
            [] => Ok(()),
            left => Err(format!("when all have ended, {} are left: {left:?}", left.len())),
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
        let _ = std::fs::remove_dir_all(self.files());
    }
}

fn ask(process: &mut Process, line: &str) -> Outcome<String> {
    process.line.tell(line);
    process.line.hear()
}

impl Prop {
    /// Returns its name on the stage, if the survivor has it at first.
    fn held(&self) -> Option<&'static str> {
        match self {
            Self::Named => Some("named"),
            Self::Shared => Some("shared"),
            Self::Contested => Some("contested"),
            Self::Given => Some("given"),
            Self::Cell => Some("cell"),
            Self::GivenCell => Some("given cell"),
            Self::Lasting | Self::Leftovers | Self::Sent | Self::Forgotten => None,
            Self::Queue
            | Self::Dropping
            | Self::Broadcast
            | Self::Latest
            | Self::Sole
            | Self::Handles => None,
        }
    }

    fn make(&self) -> Array {
        match self {
            Self::Named => old(OLD, &options("named")),
            Self::Contested => old(OLD, &options("contested")),
            Self::Lasting => old(OLD, &options("lasting").persist(true)),
            Self::Shared => old(OLD, &options("").mode(0o644)),
            Self::Cell | Self::GivenCell => old(OLD, &options("")),
            _ => old(OLD_FILE, &options("")),
        }
    }
}

/// What a newcomer must see.
struct Seen<'a> {
    stage: &'a Stage,
    /// Handles.
    held: &'a [String],
    may_go: &'a [&'a str],
    may_last: &'a [&'a str],
}

const NAMES: [&str; 5] = ["named", "contested", "lasting", "leftover", "new"];

impl Seen<'_> {
    fn by_newcomer(&self) {
        shmarray::sweep().unwrap();
        let mut files = segments_in(&self.stage.directory);
        let received =
            if self.stage.has(Prop::Forgotten) { Vec::new() } else { self.receive_all(&mut files) };
        let mut kept: Vec<_> = self
            .held
            .iter()
            .map(|handle| Array::attach(handle, Access::ReadWrite).unwrap())
            .collect();
        let held = ids(&kept);
        kept.extend(received);
        kept.iter().for_each(check);
        if !self.stage.has(Prop::Forgotten) {
            self.nothing_else_is_left(&files, &ids(&kept));
        }
        NAMES.iter().for_each(|name| self.can_be_used(name));
        drop(kept);
        let left = segments_in(&self.stage.directory);
        let counts = |file: &String| !self.stage.has(Prop::Forgotten) && !self.is_kept(file);
        let left: BTreeSet<_> = left.into_iter().filter(counts).collect();
        assert!(
            left.is_subset(&held),
            "when all names are unlinked and messages received, {left:?} stay"
        );
    }

    /// Receives the messages in the pipe, which hold what is in them, and the files of their
    /// bodies, which are taken out of the list.
    fn receive_all(&self, files: &mut Vec<String>) -> Vec<Array> {
        let end = self.stage.end(true);
        let mut arrays = Vec::new();
        let contents: HashMap<_, _> =
            files.iter().map(|file| (file.clone(), self.contents(file))).collect();
        while let Received::Message(message) = end.receive(Some(Duration::ZERO)).unwrap() {
            for (index, handle) in message.descriptors().iter().enumerate() {
                arrays.push(message.array(index, Access::ReadWrite).unwrap());
                files.retain(|file| !contents[file].contains(&handle.to_handle()));
            }
        }
        arrays
    }

    fn contents(&self, file: &str) -> String {
        let bytes = std::fs::read(self.stage.directory.join(file)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Checks that the files are those of what is held, their names, and what persists with its
    /// name.
    fn nothing_else_is_left(&self, files: &[String], held: &BTreeSet<String>) {
        let files: Vec<_> =
            files.iter().filter(|file| !file.starts_with("shmarray-ticket-")).collect();
        let (names, segments): (Vec<&String>, Vec<_>) =
            files.into_iter().partition(|file| is_name(file));
        let inode = |file: &str| std::fs::metadata(self.stage.directory.join(file)).unwrap().ino();
        for segment in
            segments.iter().filter(|segment| !held.contains(**segment) && !self.is_kept(segment))
        {
            let name = names.iter().find(|name| inode(name) == inode(segment));
            let lasts = name.is_some_and(|name| self.lasts(name.trim_start_matches(NAME_PREFIX)));
            assert!(lasts, "a sweep left {segment}, whose name is {name:?} and which nobody holds");
        }
        for name in names {
            let there = segments.iter().any(|segment| inode(segment) == inode(name));
            assert!(there, "a sweep left {name}, which leads to no segment");
        }
    }

    /// Whether a segment is a channel, which the survivor has, or a slab whose pool lease is held
    /// (FORMAT.md: the kind is at byte 80, the own lease table of a slab at byte 2304).
    fn is_kept(&self, segment: &str) -> bool {
        let bytes = std::fs::read(self.stage.directory.join(segment)).unwrap_or_default();
        let is_odd = |at: usize| bytes.get(at).is_some_and(|byte| byte % 2 == 1);
        match bytes.get(80) {
            Some(3) => true,
            kind => kind == Some(&2) && is_odd(2304),
        }
    }

    fn lasts(&self, name: &str) -> bool {
        name == "lasting" || self.may_last.contains(&name)
    }

    /// Checks that what has the name is complete, that it can be unlinked, and that the name can be
    /// used again.
    fn can_be_used(&self, name: &str) {
        match Array::attach(name, Access::ReadOnly) {
            Ok(array) => {
                check(&array);
                shmarray::unlink(name).unwrap();
            }
            Err(error) => {
                assert!(matches!(error, shmarray::Error::NameNotFound { .. }), "{name}: {error}");
                assert!(!self.must_be_there(name), "{name} has gone");
            }
        }
        let again =
            new(NEW, &options(name)).unwrap_or_else(|error| panic!("a new {name}: {error}"));
        check(&Array::attach(name, Access::ReadWrite).unwrap());
        drop(again);
    }

    fn must_be_there(&self, name: &str) -> bool {
        let is_held =
            |prop: &Prop| prop.held() == Some(name) && self.held.contains(&self.stage.handle(name));
        let lasts = name == "lasting" && self.stage.has(Prop::Lasting);
        !self.may_go.contains(&name) && (lasts || self.stage.props.iter().any(is_held))
    }
}

const NAME_PREFIX: &str = "shmarray-name-";

/// Returns their files.
fn ids(arrays: &[Array]) -> BTreeSet<String> {
    arrays.iter().map(|array| format!("shmarray-{}", array.descriptor().segment.id)).collect()
}

fn is_name(file: &str) -> bool {
    file.starts_with(NAME_PREFIX)
}
