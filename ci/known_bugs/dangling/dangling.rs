//! Reads memory that was given back, which Miri must report.

fn main() {
    let number = Box::new(7u64);
    let address: *const u64 = &raw const *number;
    drop(number);
    // SAFETY: this is unsound on purpose: the program exists so that Miri reports it.
    println!("{}", unsafe { address.read() });
}
