//! Many threads use the same arrays and names: no thread sees an operation of another half done.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;

use shmarray::{Access, Array, DType, Error, Options};

use crate::support::scenario;

/// Miri is slow.
const THREADS: u64 = if cfg!(miri) { 3 } else { 8 };
const ROUNDS: u64 = if cfg!(miri) { 3 } else { 60 };

fn numbers(count: u64, options: &Options) -> Result<Array, Error> {
    Array::create(DType::parse("<u8").unwrap(), &[count], options)
}

fn named(name: &str) -> Options {
    Options::new().name(name)
}

/// Runs `body` in many threads that begin each round together. It gets the thread and the round.
fn together(body: impl Fn(u64, u64) + Sync) {
    let start = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let start = &start;
            let body = &body;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    start.wait();
                    body(thread, round);
                }
            });
        }
    });
}

#[test]
fn every_thread_that_attaches_a_held_array_sees_what_all_wrote() {
    scenario(|| {
        let array = numbers(THREADS, &Options::default()).unwrap();
        let handle = array.handle();
        let written = Barrier::new(THREADS as usize);
        together(|thread, round| {
            let access = [Access::ReadOnly, Access::ReadWrite][(thread % 2) as usize];
            let own = Array::attach(&handle, Access::ReadWrite)
                .unwrap()
                .slice(0, Some(thread as i64), None, 1)
                .unwrap();
            own.set(&[0], round).unwrap();
            written.wait();
            let all = Array::attach(&handle, access).unwrap();
            let reversed = all.slice(0, None, None, -1).unwrap();
            drop(all);
            assert_eq!(
                (0..THREADS).filter(|at| reversed.get::<u64>(&[*at]).unwrap() != round).count(),
                0
            );
            written.wait();
        });
        assert_eq!(array.get::<u64>(&[THREADS - 1]).unwrap(), ROUNDS - 1);
    });
}

#[test]
fn arrays_of_many_threads_are_each_their_own() {
    scenario(|| {
        together(|thread, round| {
            let array = numbers(3, &Options::default()).unwrap();
            let mark = thread * ROUNDS + round;
            assert_eq!(array.get::<u64>(&[2]).unwrap(), 0);
            array.set(&[2], mark).unwrap();
            let view = array.select(0, -1).unwrap();
            drop(array);
            let found =
                Array::over_memory(view.as_ptr() as usize, view.dtype().clone(), &[], &[]).unwrap();
            assert_eq!((found.handle(), found.get::<u64>(&[]).unwrap()), (view.handle(), mark));
        });
    });
}

#[test]
fn an_array_that_is_dropped_while_others_attach_is_there_or_gone() {
    scenario(|| {
        let current: Mutex<Option<(Array, String)>> = Mutex::new(None);
        let made = Barrier::new(THREADS as usize);
        together(|thread, round| {
            if thread == 0 {
                let array = numbers(1, &Options::default()).unwrap();
                array.set(&[0], round + 1).unwrap();
                let handle = array.handle();
                *current.lock().unwrap() = Some((array, handle));
            }
            made.wait();
            let handle = current.lock().unwrap().as_ref().unwrap().1.clone();
            made.wait();
            if thread == 0 {
                return *current.lock().unwrap() = None;
            }
            match Array::attach(&handle, Access::ReadOnly) {
                Ok(array) => assert_eq!(array.get::<u64>(&[0]).unwrap(), round + 1),
                Err(error) => assert!(matches!(error, Error::SegmentNotFound { .. }), "{error}"),
            }
        });
    });
}

#[test]
fn a_name_has_one_array_however_many_threads_want_it() {
    scenario(|| {
        let created = AtomicU64::new(0);
        let settled = Barrier::new(THREADS as usize);
        together(|thread, round| {
            let array = numbers(1, &named("camera"));
            match &array {
                Ok(array) => {
                    array.set(&[0], created.fetch_add(1, Ordering::Relaxed) + thread).unwrap()
                }
                Err(error) => assert!(matches!(error, Error::NameExists { .. }), "{error}"),
            }
            settled.wait();
            assert_eq!(created.load(Ordering::Relaxed), round + 1);
            let found = Array::attach("camera", Access::ReadOnly).unwrap();
            assert!(array.is_err() || found.handle() == array.as_ref().unwrap().handle());
            settled.wait();
            drop((array, found));
            settled.wait();
            assert!(matches!(
                Array::attach("camera", Access::ReadOnly),
                Err(Error::NameNotFound { .. })
            ));
            settled.wait();
        });
    });
}

#[test]
fn sweeps_and_unlinks_take_nothing_from_threads_that_hold() {
    scenario(|| {
        let kept = numbers(1, &named("kept")).unwrap();
        let shared = numbers(1, &Options::default()).unwrap();
        together(|thread, round| match thread % 3 {
            0 => drop(shmarray::sweep().unwrap()),
            1 => {
                let name = format!("mine-{thread}");
                let array = numbers(1, &named(&name)).unwrap();
                array.set(&[0], round).unwrap();
                shmarray::unlink(&name).unwrap();
                assert!(matches!(
                    Array::attach(&name, Access::ReadOnly),
                    Err(Error::NameNotFound { .. })
                ));
                assert_eq!(array.get::<u64>(&[0]).unwrap(), round);
            }
            _ => assert_eq!(
                Array::attach("kept", Access::ReadWrite).unwrap().handle(),
                kept.handle()
            ),
        });
        assert_eq!(
            Array::attach(&shared.handle(), Access::ReadOnly).unwrap().handle(),
            shared.handle()
        );
    });
}

#[test]
fn a_list_keeps_nothing_that_its_last_holder_closes_meanwhile() {
    scenario(|| {
        together(|thread, _| match thread % 2 {
            0 => drop(shmarray::segments().unwrap()),
            _ => drop(numbers(1, &Options::default()).unwrap()),
        });
    });
}
