//! Loops with the vector instructions that this processor has beyond those that every one has.
#![allow(unsafe_code)] // a function for those processors alone

/// A loop whose `run` and all that it calls are always inlined: so it is compiled for each of the
/// processors below. The order of its additions is the same for all.
pub(super) trait Loop {
    fn run(self);
}

#[cfg(target_arch = "x86_64")]
pub(super) fn run(work: impl Loop) {
    #[target_feature(enable = "avx2")]
    unsafe fn with_avx2(work: impl Loop) {
        work.run();
    }
    match std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has it.
        true => unsafe { with_avx2(work) },
        false => work.run(),
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn run(work: impl Loop) {
    work.run();
}
