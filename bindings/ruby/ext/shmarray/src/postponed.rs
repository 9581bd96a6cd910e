//! Ruby's postponed jobs: functions that it calls when it next checks for interrupts. Any code may
//! ask for one, also while Ruby marks.
#![allow(unsafe_code)] // calls Ruby

use std::ffi::c_void;
use std::ptr;
#[cfg(ruby_gte_3_3)]
use std::sync::atomic::{AtomicU32, Ordering};

#[cfg(not(ruby_gte_3_3))]
use rb_sys::rb_postponed_job_register_one;
#[cfg(ruby_gte_3_3)]
use rb_sys::{rb_postponed_job_preregister, rb_postponed_job_trigger};

type Function = unsafe extern "C" fn(*mut c_void);

/// A job whose function ignores its argument.
pub(crate) struct Job {
    function: Function,
    /// Ruby's number for it. Ruby has 32 jobs, and gives `u32::MAX` to those that come later.
    #[cfg(ruby_gte_3_3)]
    number: AtomicU32,
}

impl Job {
    pub(crate) const fn new(function: Function) -> Self {
        Self {
            function,
            #[cfg(ruby_gte_3_3)]
            number: AtomicU32::new(u32::MAX),
        }
    }

    /// Makes it known to Ruby. Before, `trigger` does nothing in Ruby 3.3 and later.
    #[cfg_attr(not(ruby_gte_3_3), allow(clippy::unused_self))] // older ones need no number
    pub(crate) fn register(&self) {
        #[cfg(ruby_gte_3_3)]
        {
            // SAFETY: the function lives as long as the program, and ignores its argument.
            let number =
                unsafe { rb_postponed_job_preregister(0, Some(self.function), ptr::null_mut()) };
            self.number.store(number, Ordering::Relaxed);
        }
    }

    /// Asks for one call, however often it is asked for until then.
    #[cfg(ruby_gte_3_3)]
    pub(crate) fn trigger(&self) {
        let number = self.number.load(Ordering::Relaxed);
        if number != u32::MAX {
            // SAFETY: `register` got this number from Ruby.
            unsafe { rb_postponed_job_trigger(number) };
        }
    }

    /// Asks for one call, however often it is asked for until then.
    #[cfg(not(ruby_gte_3_3))]
    pub(crate) fn trigger(&self) {
        // SAFETY: the function lives as long as the program, and ignores its argument.
        unsafe { rb_postponed_job_register_one(0, Some(self.function), ptr::null_mut()) };
    }
}
