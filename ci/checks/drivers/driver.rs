//! The Rust driver: one command a line, one answer a line. README.md has the commands.
#![allow(missing_docs, unsafe_code)]
#![allow(clippy::multiple_unsafe_ops_per_block, reason = "system calls in a row")]

use std::collections::BTreeMap;
use std::ffi::CString;
use std::io::{BufRead, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use shmarray::{
    Access, Array, Channel, ChannelOptions, Column, ColumnBuilder, ColumnKind, DType, DTypeKind,
    Delivered, Dict, Error, Key, Layout, List, Loaned, Number, Options, Order, Pipe, Received,
    Receives, Sent, WhenFull,
};

const WARM_UP: u64 = 100;
const TIMEOUT: Option<Duration> = Some(Duration::from_millis(5));

type Answer = Result<String, Error>;

fn main() {
    let mut driver = Driver::default();
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("standard input is text");
        let count = if line.starts_with("attach ") { 4 } else { usize::MAX };
        let words: Vec<&str> = line.splitn(count, ' ').collect();
        let answer = driver
            .answer(&words)
            .unwrap_or_else(|error| format!("error {:?} {error}", error.kind()));
        println!("{answer}");
        std::io::stdout().flush().expect("the host reads");
    }
}

/// An array, and the value of all its elements if there is one.
struct Held {
    array: Array,
    value: Option<i64>,
}

#[derive(Default)]
struct Driver {
    held: BTreeMap<String, Held>,
    channels: BTreeMap<String, Channel>,
    pipes: Vec<Pipe>,
    threads: Threads,
}

impl Driver {
    fn answer(&mut self, words: &[&str]) -> Answer {
        match *words {
            ["hello"] => Ok(format!("ok rust {}", shmarray::VERSION)),
            ["dtypes"] => {
                Ok(DType::ALL.iter().fold("ok".to_owned(), |list, dtype| list + " " + dtype.text()))
            }
            ["create", key, dtype, layout] => {
                let array = make(DType::parse(dtype)?, layout)?;
                fill_pattern(&array)?;
                self.keep(key, array, None)
            }
            ["attach", key, access, handle] => self.attach(key, access, handle),
            ["publish", name, dtype] => self.publish(name, dtype),
            ["receive", handle_or_name] => receive(handle_or_name),
            ["list", key, kind] => {
                let options = Options::new();
                let made = match split(kind) {
                    ("dictionary", keys) => {
                        let made = Dict::create(column(keys)?, column("maybe-<i8")?, &options)?;
                        made.as_list().clone()
                    }
                    _ => List::create(column(kind)?, &options)?,
                };
                self.keep(key, made.array().expect("it is new").clone(), None)
            }
            ["find", handle] => find(&Dict::attach(handle)?),
            ["items" | "values" | "offsets", handle, ref field @ ..] => {
                let list = List::attach(handle)?;
                of_column(words[0], field_of(&list, field))
            }
            ["make", key, count, value, ref rest @ ..] => self.make(key, count, value, rest),
            ["share", key, count, value] => self.share(key, number(count), number(value)),
            ["view", key, other] => {
                self.keep(key, self.array(other).slice(0, Some(1), None, 2)?, None)
            }
            ["check"] => Ok(self.check()),
            ["drop", ref keys @ ..] => {
                self.drop(keys);
                ok("")
            }
            ["unlink", name] => shmarray::unlink(name).and_then(|()| ok("")),
            ["sweep"] => ok(shmarray::sweep()?.segments),
            ["segments"] => segments(),
            ["discard", handle] => shmarray::discard(handle).and_then(|()| ok("")),
            ["pipes", out, into] => {
                self.pipes = [out, into].map(|fd| pipe(number(fd) as i32)).into();
                ok("")
            }
            ["send", ref keys @ ..] => self.send(keys),
            ["take", key, access] => self.take(key, access),
            ["channel", mode, value] => self.channel(mode, value),
            ["threads", count] => {
                self.threads.set(number(count));
                ok("")
            }
            ["rounds"] => ok(self.threads.shared.1.load(Ordering::Relaxed)),
            ["time_create", size, count] => time_create(size, number(count) as u64),
            ["time_attach", count, path] => time_attach(number(count) as u64, path),
            ["time_ask", name, size, count, wait] => {
                time_ask(name, number(size) as u64, number(count) as u64, timeout(wait))
            }
            ["time_answer", name, wait] => time_answer(name, timeout(wait)),
            [command, key, ref rest @ ..] if self.held.contains_key(key) => {
                self.of_array(command, key, rest)
            }
            _ => of_process(words),
        }
    }

    fn of_array(&mut self, command: &str, key: &str, rest: &[&str]) -> Answer {
        if let ("fill", [value]) = (command, rest) {
            let held = self.held.get_mut(key).expect("it is there");
            held.value = Some(number(value));
            fill(&held.array, number(value));
            return ok("");
        }
        let array = self.array(key);
        match (command, rest) {
            ("handle", []) => ok(array.handle()),
            ("ticket", []) => ok(array.handle_to_send()?),
            ("bytes", []) => ok(hex(&array.to_bytes()?)),
            ("compare", []) => compare(array),
            ("write", []) => write_last(array),
            ("written", []) => written(array),
            ("get", []) => ok(array.get::<i64>(&[0])?),
            ("is", [value]) if is_all(array, number(value)) => ok(array.layout().len()),
            ("is", _) => Ok(format!("bad 0 {}", array.get::<i64>(&[0])?)),
            _ => panic!("no such command: {command}"),
        }
    }

    fn array(&self, key: &str) -> &Array {
        &self.held.get(key).unwrap_or_else(|| panic!("no array {key}")).array
    }

    fn keep(&mut self, key: &str, array: Array, value: Option<i64>) -> Answer {
        let handle = array.handle();
        self.held.insert(key.to_owned(), Held { array, value });
        ok(handle)
    }

    fn attach(&mut self, key: &str, access: &str, handle: &str) -> Answer {
        let array = Array::attach(handle, access_of(access))?;
        let (shape, strides) = (list(array.shape()), list(array.strides()));
        let answer = format!("{} {shape} {strides}", array.dtype().text());
        self.keep(key, array, None)?;
        ok(answer)
    }

    fn make(&mut self, key: &str, count: &str, value: &str, rest: &[&str]) -> Answer {
        let mut options = Options::new();
        if let Some(name) = rest.first().filter(|name| **name != "-") {
            options = options.name(*name).persist(rest.get(2) == Some(&"1"));
        }
        if let Some(mode) = rest.get(1) {
            options = options.mode(u32::from_str_radix(mode, 8).expect("a mode"));
        }
        let array = Array::create(DType::parse("<i8")?, &[number(count) as u64], &options)?;
        if number(value) != 0 {
            fill(&array, number(value));
        }
        self.keep(key, array, Some(number(value)).filter(|value| *value != 0))
    }

    fn share(&mut self, key: &str, count: i64, value: i64) -> Answer {
        let private = vec![value; 2 * count as usize];
        let layout = Layout::contiguous(&[count as u64, 2], 8, Order::C)?.select(1, 0)?;
        // SAFETY: every second element of the vector is read: `count` elements, 16 bytes apart.
        let array = unsafe {
            Array::share(private.as_ptr().cast(), DType::parse("<i8")?, &layout, &Options::new())?
        };
        self.keep(key, array, Some(value))
    }

    fn check(&self) -> String {
        let valued = || {
            self.held.iter().filter_map(|(key, held)| held.value.map(|value| (key, held, value)))
        };
        let wrong: Vec<&str> = valued()
            .filter(|(_, held, value)| !is_all(&held.array, *value))
            .map(|(key, ..)| key.as_str())
            .collect();
        match wrong.as_slice() {
            [] => format!("ok {}", valued().count()),
            _ => format!("bad {}", wrong.join(" ")),
        }
    }

    fn drop(&mut self, keys: &[&str]) {
        if keys.is_empty() {
            self.held.clear();
            self.channels.clear();
        }
        for key in keys {
            self.held.remove(*key);
        }
    }

    fn publish(&mut self, name: &str, dtype: &str) -> Answer {
        self.channels.clear();
        let options = ChannelOptions::new();
        let channel = Channel::create(name, DType::parse(dtype)?, &[2, 3, 4], &options)?;
        match channel.loan(None)? {
            Loaned::Loan(loan) => {
                fill_pattern(loan.array())?;
                loan.publish(dtype.as_bytes())?;
            }
            other => panic!("no loan of a new channel: {other:?}"),
        }
        let handle = channel.handle();
        self.channels.insert("published".to_owned(), channel);
        ok(handle)
    }

    fn send(&self, keys: &[&str]) -> Answer {
        let found: Vec<(&Array, i64)> = keys
            .iter()
            .filter_map(|key| self.held.get(*key))
            .filter_map(|held| held.value.map(|value| (&held.array, value)))
            .collect();
        let values: Vec<String> = found.iter().map(|(_, value)| value.to_string()).collect();
        let arrays: Vec<&Array> = found.iter().map(|(array, _)| *array).collect();
        match self.pipes[0].send(values.join(" ").as_bytes(), &arrays, TIMEOUT)? {
            Sent::Sent => ok(found.len()),
            _ => Ok("none".to_owned()),
        }
    }

    fn take(&mut self, key: &str, access: &str) -> Answer {
        let Received::Message(message) = self.pipes[1].receive(TIMEOUT)? else {
            return Ok("none".to_owned());
        };
        let values = String::from_utf8_lossy(message.payload()).into_owned();
        let values: Vec<i64> = values.split_whitespace().map(number).collect();
        for (index, value) in values.iter().enumerate().filter(|_| key != "-") {
            let array = message.array(index, access_of(access))?;
            if !is_all(&array, *value) {
                return Ok(format!("bad {index}"));
            }
            self.keep(key, array, Some(*value))?;
        }
        ok(values.len())
    }

    /// Sends a value, or receives one where it is 0.
    fn channel(&mut self, mode: &str, value: &str) -> Answer {
        if !self.channels.contains_key(mode) {
            let mut options = ChannelOptions::new().slots(5).exist_ok(true);
            options = options.mode(mode.parse()?);
            if mode == "broadcast" {
                options = options.when_full(WhenFull::DropOldest);
            }
            let name = format!("common-{mode}");
            let made = Channel::create(&name, DType::parse("<i8")?, &[2000], &options)?;
            self.channels.insert(mode.to_owned(), made);
        }
        let channel = &self.channels[mode];
        if value != "0" {
            return match channel.loan(TIMEOUT)? {
                Loaned::Loan(loan) => {
                    fill(loan.array(), number(value));
                    loan.publish(value.as_bytes())?;
                    ok(0)
                }
                _ => Ok("none".to_owned()),
            };
        }
        match channel.receive(TIMEOUT)? {
            Delivered::Message(message) => {
                let value = number(&String::from_utf8_lossy(message.meta()));
                Ok(if is_all(message.array(), value) { "ok 1" } else { "bad 0" }.to_owned())
            }
            _ => Ok("none".to_owned()),
        }
    }
}

fn ok(answer: impl ToString) -> Answer {
    Ok(format!("ok {}", answer.to_string()).trim_end().to_owned())
}

fn number(text: &str) -> i64 {
    text.parse().unwrap_or_else(|_| panic!("no number: {text}"))
}

fn access_of(text: &str) -> Access {
    if text == "ro" { Access::ReadOnly } else { Access::ReadWrite }
}

fn pipe(fd: i32) -> Pipe {
    // SAFETY: the host opened the fd for this process, which has no other owner of it.
    Pipe::from_fd(unsafe { OwnedFd::from_raw_fd(fd) }).expect("an end of a pipe")
}

/// Writes the first element last: where it is there, all are.
fn fill(array: &Array, value: i64) {
    let data = array.as_ptr().cast::<i64>();
    for index in (0..array.layout().len() as usize).rev() {
        // SAFETY: the array is contiguous, writable and of that many elements of 8 bytes.
        unsafe { data.add(index).write_volatile(value) };
    }
}

fn is_all(array: &Array, value: i64) -> bool {
    let bytes = array.to_bytes().expect("there is memory");
    bytes.chunks_exact(8).all(|element| element == value.to_le_bytes())
}

fn segments() -> Answer {
    let mut names: Vec<String> = shmarray::segments()?
        .into_iter()
        .filter(|info| info.kind == shmarray::SegmentKind::Array)
        .map(|info| info.name.unwrap_or_else(|| "-".to_owned()))
        .collect();
    names.sort();
    ok(names.join(" "))
}

/// Threads that make, attach and drop arrays.
#[derive(Default)]
struct Threads {
    shared: Arc<(AtomicBool, AtomicU64)>,
    threads: Vec<JoinHandle<()>>,
}

impl Threads {
    /// Starts so many threads; 0 stops them.
    fn set(&mut self, count: i64) {
        self.shared.0.store(count == 0, Ordering::Relaxed);
        if count == 0 {
            self.threads.drain(..).for_each(|thread| thread.join().expect("it found its value"));
        }
        for _ in 0..count {
            let shared = Arc::clone(&self.shared);
            self.threads.push(std::thread::spawn(move || {
                while !shared.0.load(Ordering::Relaxed) {
                    work_in_thread().expect("there is room");
                    shared.1.fetch_add(1, Ordering::Relaxed);
                }
            }));
        }
    }
}

fn work_in_thread() -> Result<(), Error> {
    let own = Array::create(DType::parse("<i8")?, &[1000], &Options::new())?;
    let again = Array::attach(&own.handle(), Access::ReadOnly)?;
    own.set(&[999], 7_i64)?;
    assert_eq!(again.get::<i64>(&[999])?, 7);
    Ok(())
}

/// The commands that only the operating system answers.
fn of_process(words: &[&str]) -> Answer {
    match *words {
        ["fork", into, out] => fork(into, out),
        // SAFETY: these calls have no conditions.
        ["session"] => done(unsafe { libc::setsid() }),
        ["directory", path] => {
            // SAFETY: no other thread of this process reads the environment.
            unsafe { std::env::set_var("SHMARRAY_DIR", path) };
            ok("")
        }
        ["user", id] => {
            let id = number(id) as u32;
            // SAFETY: these calls have no conditions but the empty list of groups.
            done(unsafe {
                libc::setgroups(0, std::ptr::null()) + libc::setgid(id) + libc::setuid(id)
            })
        }
        ["close_fds", first] => {
            (number(first) as i32..4096).for_each(|fd| {
                // SAFETY: the host asks for this, and knows what this process has open.
                unsafe { libc::close(fd) };
            });
            ok("")
        }
        ["spawn", into, out] => {
            let mut cat = std::process::Command::new("cat");
            cat.stdin(std::fs::File::open(into).expect("a FIFO"));
            cat.stdout(std::fs::File::options().write(true).open(out).expect("a FIFO"));
            ok(cat.spawn().expect("there is such a program").id())
        }
        ["exec", program] => {
            use std::os::unix::process::CommandExt;
            let error = std::process::Command::new(program).exec();
            Ok(format!("error Os {error}"))
        }
        ["end", how] => end(how),
        _ => panic!("no such command, or no such array: {words:?}"),
    }
}

fn done(result: i32) -> Answer {
    assert!(result >= 0, "{}", std::io::Error::last_os_error());
    ok("")
}

fn end(how: &str) -> ! {
    match how {
        "exit" => std::process::exit(0),
        // SAFETY: the call has no conditions.
        "_exit" => unsafe { libc::_exit(0) },
        // SAFETY: the call has no conditions.
        "kill" => unsafe {
            libc::raise(libc::SIGKILL);
        },
        "abort" => std::process::abort(),
        _ => {}
    }
    panic!("an error that nothing handles")
}

/// Forks a process that goes on alone: the host adopts it.
fn fork(into: &str, out: &str) -> Answer {
    let [into, out] = [into, out].map(|path| CString::new(path).expect("no zero in it"));
    // SAFETY: the paths live on; the child makes only calls that a child may make. It goes on in
    // ordinary code, as a child of a program with one thread may, and glibc lets others.
    unsafe {
        let child = libc::fork();
        if child > 0 {
            let mut status = 0;
            libc::waitpid(child, &raw mut status, 0);
            assert_eq!(status, 0, "a child started another one");
            return ok("");
        }
        if libc::fork() > 0 {
            libc::_exit(0);
        }
        libc::dup2(libc::open(into.as_ptr(), libc::O_RDONLY), 0);
        libc::dup2(libc::open(out.as_ptr(), libc::O_WRONLY), 1);
        ok(libc::getpid())
    }
}

fn receive(handle_or_name: &str) -> Answer {
    match Channel::open(handle_or_name, Receives::Now)?.receive(None)? {
        Delivered::Message(message) => {
            let meta = String::from_utf8_lossy(message.meta()).into_owned();
            Ok(format!("{} {meta}", compare(message.array())?))
        }
        other => panic!("no message: {other:?}"),
    }
}

// Measurements: the loops are timed here.

/// The seconds of one call of `count`.
fn each(count: u64, work: impl FnOnce() -> Result<(), Error>) -> Result<f64, Error> {
    let began = Instant::now();
    work()?;
    Ok(began.elapsed().as_secs_f64() / count as f64)
}

/// Not cleared: clearing is a memset of the size.
fn time_create(size: &str, count: u64) -> Answer {
    let dtype = DType::parse("|u1")?;
    let options = Options::new().uninitialized(true);
    let create = |times: u64| {
        (0..times).try_for_each(|_| {
            Array::create(dtype.clone(), &[number(size) as u64], &options).map(drop)
        })
    };
    create(count / 10 + 1)?;
    ok(format!("{:.9}", each(count, || create(count))?))
}

/// The first handle is attached before the clock starts: it pays for what is done once.
fn time_attach(count: u64, path: &str) -> Answer {
    let text = std::fs::read_to_string(path).expect("a file of handles");
    let handles: Vec<&str> = text.lines().collect();
    let attach = |handle: &str| Array::attach(handle, Access::ReadWrite);
    let all = |arrays: &mut Vec<Array>| {
        each(handles.len() as u64 - 1, || {
            handles[1..].iter().try_for_each(|handle| attach(handle).map(|one| arrays.push(one)))
        })
    };
    let _first = attach(handles[0])?;
    let mut arrays = Vec::with_capacity(handles.len());
    let cold = all(&mut arrays)?;
    let held = each(count, || (0..count).try_for_each(|_| attach(handles[1]).map(drop)))?;
    arrays.clear();
    ok(format!("{cold:.9} {held:.9} {:.9}", all(&mut arrays)?))
}

fn timeout(wait: &str) -> Option<Duration> {
    (wait == "poll").then_some(Duration::ZERO)
}

fn create_channel(name: &str, size: u64) -> Result<Channel, Error> {
    Channel::create(name, DType::parse("|u1")?, &[size], &ChannelOptions::new().slots(4))
}

/// Sends a frame, of which it writes only the first byte: filling the rest costs the same in every
/// system.
fn send_first(channel: &Channel, first: u8) -> Result<(), Error> {
    let Loaned::Loan(loan) = channel.loan(None)? else { panic!("no slot") };
    loan.array().set(&[0], first)?;
    loan.publish(b"").map(drop)
}

/// `None` at the end of the stream.
fn receive_first(channel: &Channel, timeout: Option<Duration>) -> Result<Option<u8>, Error> {
    loop {
        match channel.receive(timeout)? {
            Delivered::Message(message) => return message.array().get(&[0]).map(Some),
            Delivered::Ended { .. } => return Ok(None),
            _ => {} // it polls
        }
    }
}

fn time_ask(name: &str, size: u64, count: u64, timeout: Option<Duration>) -> Answer {
    let there = create_channel(&format!("{name}.there"), size)?;
    let back = create_channel(&format!("{name}.back"), size)?;
    let round = |number: u64| {
        send_first(&there, number as u8)?;
        let first = receive_first(&back, timeout)?;
        assert_eq!(first, Some(number as u8), "another frame came back");
        Ok(())
    };
    (0..WARM_UP).try_for_each(round)?;
    ok(format!("{:.9}", each(count, || (0..count).try_for_each(round))?))
}

fn time_answer(name: &str, timeout: Option<Duration>) -> Answer {
    let open = |part: &str| Channel::open_within(&format!("{name}.{part}"), Receives::Now, None);
    let there = open("there")?.expect("waits");
    let back = open("back")?.expect("waits");
    while let Some(first) = receive_first(&there, timeout)? {
        send_first(&back, first)?;
    }
    ok("")
}

// Lists.

const LIST_LEN: u64 = 5;
const CHARACTERS: &str = "é\0\"😀";
const RECORD_FIELDS: &[(&str, &str)] = &[
    ("text", "strings"),
    ("size", "maybe-<i8"),
    ("sample", "vectors-<f4"),
    ("größe", "lists-maybe-strings"),
    ("point", "points"),
    ("none", "nothing"),
];
const POINT_FIELDS: &[(&str, &str)] = &[("x", "<f8"), ("flag", "|b1")];

/// Splits a kind: `lists-strings` are lists of strings.
fn split(kind: &str) -> (&str, &str) {
    kind.split_once('-').unwrap_or((kind, ""))
}

fn column(kind: &str) -> Result<ColumnBuilder, Error> {
    let mut column = empty_column(kind)?;
    let len = if kind == "empty" { 0 } else { LIST_LEN };
    (0..len).try_for_each(|k| push(&mut column, kind, k))?;
    Ok(column)
}

fn empty_column(kind: &str) -> Result<ColumnBuilder, Error> {
    let records = |fields: &[(&str, &str)]| {
        let columns = fields.iter().map(|(name, kind)| Ok((*name, empty_column(kind)?)));
        ColumnBuilder::records(columns.collect::<Result<Vec<_>, Error>>()?)
    };
    match split(kind) {
        ("maybe", rest) => empty_column(rest),
        ("lists", rest) => empty_column(rest).map(ColumnBuilder::lists),
        ("vectors", dtype) => ColumnBuilder::arrays(DType::parse(dtype)?, 1),
        ("images" | "same", dtype) => ColumnBuilder::arrays(DType::parse(dtype)?, 2),
        ("strings", _) => Ok(ColumnBuilder::strings()),
        ("bytes", _) => Ok(ColumnBuilder::bytes()),
        ("nothing" | "empty", _) => Ok(ColumnBuilder::nothing()),
        ("records", _) => records(RECORD_FIELDS),
        ("points", _) => records(POINT_FIELDS),
        (dtype, _) => ColumnBuilder::numbers(DType::parse(dtype)?),
    }
}

/// Adds item k of a list of this kind.
fn push(column: &mut ColumnBuilder, kind: &str, k: u64) -> Result<(), Error> {
    match split(kind) {
        ("maybe", _) if k % 3 == 1 => column.push_none(),
        ("nothing", _) => column.push_none(),
        ("maybe", rest) => push(column, rest, k),
        ("lists", rest) => {
            let items = column.field_mut(0).expect("lists have one column");
            (k..k + k % 3).try_for_each(|k| push(items, rest, k))?;
            column.push_list()
        }
        ("vectors", dtype) => column.push_array(&[k % 3], &elements(dtype, k, k % 3)?),
        ("images", dtype) => column.push_array(&[k % 3, 2], &elements(dtype, k, k % 3 * 2)?),
        ("same", dtype) => column.push_array(&[2, 2], &elements(dtype, k, 4)?),
        ("strings", _) => {
            column.push_string(&CHARACTERS.chars().take(k as usize).collect::<String>())
        }
        ("bytes", _) => column.push_bytes(&[0x00, 0x55, 0xaa, 0xff][..k as usize]),
        ("records", _) => push_record(column, RECORD_FIELDS, k),
        ("points", _) => push_record(column, POINT_FIELDS, k),
        (dtype, _) => column.push_number(&elements(dtype, k, 1)?),
    }
}

fn push_record(column: &mut ColumnBuilder, fields: &[(&str, &str)], k: u64) -> Result<(), Error> {
    for (at, (_, kind)) in fields.iter().enumerate() {
        push(column.field_mut(at).expect("it has these fields"), kind, k)?;
    }
    column.push_records(1)
}

/// Returns the bytes of so many elements, from pattern(k) on.
fn elements(dtype: &str, k: u64, count: u64) -> Result<Vec<u8>, Error> {
    let array = Array::create(DType::parse(dtype)?, &[count], &Options::new())?;
    for at in 0..count {
        array.set_number(&[at], pattern(array.dtype(), (k + at) as i64))?;
    }
    array.to_bytes()
}

fn field_of<'a>(list: &'a List, field: &[&str]) -> Column<'a> {
    let items = list.items();
    field.iter().fold(items, |column, name| column.field(name).expect("it is a field"))
}

/// Answers what a column has, as JSON.
fn of_column(what: &str, column: Column<'_>) -> Answer {
    ok(match what {
        "items" => items(column, 0..column.len())?,
        "values" => of_elements(&column.values()?)?,
        _ => of_elements(&column.offsets()?)?,
    })
}

fn items(column: Column<'_>, range: std::ops::Range<u64>) -> Result<String, Error> {
    let items: Vec<String> = range.map(|at| item(column, at)).collect::<Result<_, _>>()?;
    Ok(format!("[{}]", items.join(",")))
}

fn item(column: Column<'_>, at: u64) -> Result<String, Error> {
    if column.is_none(at)? {
        return Ok("null".to_owned());
    }
    match column.kind() {
        ColumnKind::Numbers => Ok(of_number(column.number(at)?.expect("it is not None"))),
        ColumnKind::Arrays => of_elements(&column.array(at)?),
        ColumnKind::Strings => column.string(at).map(|text| of_text(&text)),
        ColumnKind::Records => {
            let field = |field: Column<'_>| Ok(of_text(field.name()) + ":" + &item(field, at)?);
            let fields: Vec<String> = column.children().map(field).collect::<Result<_, Error>>()?;
            Ok(format!("{{{}}}", fields.join(",")))
        }
        ColumnKind::Lists => {
            items(column.children().next().expect("lists have one column"), column.list(at)?)
        }
        _ => Ok(of_bytes(&column.bytes(at)?)),
    }
}

/// Finds each key of a dictionary, and one that is absent.
fn find(dict: &Dict) -> Answer {
    let keys = dict.keys();
    let entry_at = |at| match keys.kind() {
        ColumnKind::Strings => entry(dict, Key::String(&keys.string(at)?)),
        ColumnKind::Bytes => entry(dict, Key::Bytes(&keys.bytes(at)?)),
        _ => match keys.number(at)? {
            Some(Number::Integer(whole)) => entry(dict, Key::Integer(whole as i64)),
            other => panic!("no key of a dictionary: {other:?}"),
        },
    };
    let absent = match keys.kind() {
        ColumnKind::Strings => Key::String("absent"),
        ColumnKind::Bytes => Key::Bytes(b"absent"),
        _ => Key::Integer(0),
    };
    let entries = (0..keys.len()).map(entry_at).chain([entry(dict, absent)]);
    ok(format!("[{}]", entries.collect::<Result<Vec<_>, _>>()?.join(",")))
}

/// Finds a key, and returns it and its value as JSON.
fn entry(dict: &Dict, key: Key<'_>) -> Answer {
    let text = match key {
        Key::String(text) => of_text(text),
        Key::Bytes(bytes) => of_bytes(bytes),
        Key::Integer(whole) => whole.to_string(),
    };
    let value = dict.find(key)?.map(|at| item(dict.values(), at)).transpose()?;
    Ok(format!("[{text},{}]", value.unwrap_or_else(|| of_text("absent"))))
}

fn of_elements(array: &Array) -> Answer {
    let elements = indices(array.shape()).map(|index| array.get_number(&index).map(of_number));
    let elements: Vec<String> = elements.collect::<Result<_, _>>()?;
    Ok(format!(r#"{{"shape":{:?},"elements":[{}]}}"#, array.shape(), elements.join(",")))
}

fn of_number(number: Number) -> String {
    match number {
        Number::Bool(truth) => truth.to_string(),
        Number::Integer(whole) => whole.to_string(),
        Number::Float(float) => format!("{float:?}"),
        Number::Complex(re, im) => format!("[{re:?},{im:?}]"),
    }
}

fn of_bytes(bytes: &[u8]) -> String {
    of_text(&bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

/// serde_json sorts the fields of a record, so it writes only texts.
fn of_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn make(dtype: DType, layout: &str) -> Result<Array, Error> {
    let create = |shape: &[u64], order| Array::create(dtype, shape, &Options::new().order(order));
    match layout {
        "c" => create(&[2, 3, 4], Order::C),
        "f" => create(&[2, 3, 4], Order::F),
        "strided" => create(&[4, 6, 4], Order::C)?.slice(0, None, None, 2)?.slice(1, None, None, 2),
        "reversed" => {
            create(&[2, 3, 4], Order::C)?.slice(0, None, None, -1)?.slice(2, None, None, -1)
        }
        "transposed" => Ok(create(&[4, 3, 2], Order::C)?.transpose()),
        "scalar" => create(&[], Order::C),
        "empty" => create(&[0, 3], Order::C),
        _ => panic!("no such layout: {layout}"),
    }
}

fn fill_pattern(array: &Array) -> Result<(), Error> {
    let mut positions = indices(array.shape()).enumerate();
    positions.try_for_each(|(k, index)| array.set_number(&index, pattern(array.dtype(), k as i64)))
}

fn compare(array: &Array) -> Answer {
    for (k, index) in indices(array.shape()).enumerate() {
        let found = array.get_number(&index)?;
        if found != pattern(array.dtype(), k as i64) {
            return Ok(format!("bad {k} {found}"));
        }
    }
    Ok(format!("ok {}", array.layout().len()))
}

fn write_last(array: &Array) -> Answer {
    match array.set_number(&last(array), pattern(array.dtype(), 100)) {
        Err(Error::ReadOnly) => Ok(format!("refused {}", Error::ReadOnly)),
        done => done.map(|()| "ok".to_owned()),
    }
}

fn written(array: &Array) -> Answer {
    let found = array.get_number(&last(array))?;
    if found == pattern(array.dtype(), 100) {
        Ok("ok".to_owned())
    } else {
        Ok(format!("bad {} {found}", array.layout().len() - 1))
    }
}

/// Returns the value of element k.
fn pattern(dtype: &DType, k: i64) -> Number {
    let range = dtype.code().integer_range();
    let bits = range.map_or(0, |(least, most)| (most - least + 1).ilog2().into());
    let real = k as f64 / 2.0 - 3.25;
    match dtype.kind() {
        Some(DTypeKind::Bool) => Number::Bool(k % 3 == 0),
        Some(DTypeKind::Signed) => Number::Integer(wrap(7 * k + 3 - 20, bits)),
        Some(DTypeKind::Unsigned) => Number::Integer(wrap(7 * k + 3, bits).rem_euclid(1 << bits)),
        Some(DTypeKind::Float) if dtype.itemsize() == 1 => Number::Float((1 + k % 2) as f64),
        Some(DTypeKind::Float) => Number::Float(real),
        Some(DTypeKind::Complex) => Number::Complex(real, 2.5 - k as f64),
        Some(kind) => panic!("no value of the line protocol for {kind:?}"),
        None => panic!("items without a meaning have no elements"),
    }
}

/// Returns the signed number of so many bits that has the lowest bits of `whole`.
fn wrap(whole: i64, bits: u64) -> i128 {
    let unused = 128 - bits;
    i128::from(whole) << unused >> unused
}

fn last(array: &Array) -> Vec<u64> {
    array.shape().iter().map(|count| count - 1).collect()
}

/// All indices in C order.
fn indices(shape: &[u64]) -> impl Iterator<Item = Vec<u64>> {
    let shape = shape.to_vec();
    (0..shape.iter().product()).map(move |k: u64| {
        let mut rest = k;
        let mut index: Vec<u64> =
            shape.iter().rev().map(|count| (rest % count, rest /= count).0).collect();
        index.reverse();
        index
    })
}

fn hex(bytes: &[u8]) -> String {
    match bytes {
        [] => "-".to_owned(),
        _ => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

fn list<T: ToString>(numbers: &[T]) -> String {
    match numbers {
        [] => "-".to_owned(),
        _ => numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
    }
}
