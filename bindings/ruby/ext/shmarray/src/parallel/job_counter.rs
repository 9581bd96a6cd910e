//! `Shmarray::JobCounter`: hands out the jobs of one call, in memory that all its workers share.
//!
//! A worker takes its next job itself, so no process is woken to assign it one. The memory is a
//! file of the kernel (core's `SharedWords`): it lies in no file system that could be full, and the
//! kernel frees it when the last of the processes ends.
//!
//! | word | written by | value |
//! |---|---|---|
//! | next | a worker that takes a job | the number of the first job that is not taken yet |
//! | one for each worker | that worker | [`NEW`], [`TAKING`], [`NONE`], or its job's number + [`FIRST`] |
//!
//! The first job of each worker is the one with the worker's own number, so that short jobs do not
//! leave a worker without one. When a worker dies, its word tells which job it had. If it died
//! while it took one, the word is `TAKING`: then at most one job was taken whose number is unknown.
#![allow(unsafe_code)] // the derive writes unsafe code

use std::sync::atomic::{AtomicU64, Ordering};

use magnus::{
    Class, DataTypeFunctions, Error, Module, Object, RModule, Ruby, TypedData, function, method,
};
use shmarray::SharedWords;

use crate::error::{OrRaise, argument_error};
use crate::gvl::look_up_class;

const NEW: u64 = 0;
const TAKING: u64 = 1;
const NONE: u64 = 2;
const FIRST: u64 = 3;
/// How far the words lie apart: each has a cache line of its own.
const APART: usize = 8;
/// A number above that of any job.
const OVER: u64 = 1 << 62;

#[derive(TypedData)]
#[magnus(class = "Shmarray::JobCounter", free_immediately, size)]
struct JobCounter {
    words: SharedWords,
    workers: usize,
    jobs: u64,
}

impl DataTypeFunctions for JobCounter {}

/// Defines the class.
pub(super) fn define(ruby: &Ruby, shmarray: RModule) -> Result<(), Error> {
    let class = shmarray.define_class("JobCounter", ruby.class_object())?;
    class.undef_default_alloc_func();
    shmarray.define_singleton_method("job_counter", function!(JobCounter::new, 2))?;
    class.define_method("take", method!(JobCounter::take, 1))?;
    class.define_method("job_of", method!(JobCounter::job_of, 1))?;
    class.define_method("stop", method!(JobCounter::stop, 0))?;
    look_up_class::<JobCounter>(ruby)
}

impl JobCounter {
    fn new(ruby: &Ruby, workers: usize, jobs: u64) -> Result<Self, Error> {
        let words = SharedWords::new((workers + 1) * APART).or_raise(ruby)?;
        let counter = Self { words, workers, jobs: jobs.min(OVER) };
        counter.word(0).store(workers as u64, Ordering::SeqCst);
        Ok(counter)
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        &self.words.words()[at * APART]
    }

    fn of_worker(&self, ruby: &Ruby, number: usize) -> Result<&AtomicU64, Error> {
        if number < self.workers {
            Ok(self.word(number + 1))
        } else {
            Err(argument_error(ruby, format!("no worker {number} of {}", self.workers)))
        }
    }

    /// Returns the number of the next job, which belongs to this worker from now on; nil when there
    /// is none.
    fn take(ruby: &Ruby, this: &Self, worker: usize) -> Result<Option<u64>, Error> {
        let own = this.of_worker(ruby, worker)?;
        let is_new = own.swap(TAKING, Ordering::SeqCst) == NEW;
        let next = this.word(0);
        let job = if is_new && next.load(Ordering::SeqCst) < OVER {
            worker as u64
        } else {
            next.fetch_add(1, Ordering::SeqCst)
        };
        let job = Some(job).filter(|&job| job < this.jobs);
        own.store(job.map_or(NONE, |job| job + FIRST), Ordering::SeqCst);
        Ok(job)
    }

    /// Returns the number of the job that a worker has, or will have first; -1 if it died while it
    /// took one; nil if it has none.
    fn job_of(ruby: &Ruby, this: &Self, worker: usize) -> Result<Option<i64>, Error> {
        Ok(match this.of_worker(ruby, worker)?.load(Ordering::SeqCst) {
            NEW => Some(worker as i64),
            TAKING => Some(-1),
            NONE => None,
            word => Some((word - FIRST) as i64),
        })
    }

    /// Stops the call: no job is taken any more.
    fn stop(&self) {
        self.word(0).store(OVER, Ordering::SeqCst);
    }
}
