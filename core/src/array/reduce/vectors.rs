//! Loops compiled twice: for every processor of the architecture, and for those with AVX2.
#![allow(unsafe_code)] // calls of a function that needs AVX2

/// A loop whose `run`, and all that it calls, is always inlined, so that it is compiled with the
/// instructions of the function that runs it. The order of its additions is the same in both.
pub(super) trait Loop {
    fn run(self);
}

#[cfg(target_arch = "x86_64")]
pub(super) fn run(work: impl Loop) {
    #[target_feature(enable = "avx2")]
    unsafe fn with_avx2(work: impl Loop) {
        work.run();
    }
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: `with_avx2` may only run on a processor with AVX2, and `is_x86_feature_detected`
        // has just found it.
        unsafe { with_avx2(work) }
    } else {
        work.run()
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn run(work: impl Loop) {
    work.run();
}
