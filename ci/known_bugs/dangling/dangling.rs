//! Reads memory that was given back: what Miri is there to report.

fn main() {
    let number = Box::new(7u64);
    let address: *const u64 = &raw const *number;
    drop(number);
    // SAFETY: none: that this is wrong is what the program is for.
    println!("{}", unsafe { address.read() });
}
