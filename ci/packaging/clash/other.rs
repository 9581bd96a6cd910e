//! A static library of another Rust compiler, with a standard library of its own.

/// Adds the numbers below `n`; 77 if the closure panics, as it does for 3.
#[unsafe(no_mangle)]
pub extern "C" fn other_sum(n: u32) -> u32 {
    std::panic::set_hook(Box::new(|_| ()));
    let sum = std::panic::catch_unwind(|| {
        let numbers: Vec<u32> = (0..n).collect();
        assert_ne!(n, 3);
        numbers.iter().sum()
    });
    sum.unwrap_or(77)
}
