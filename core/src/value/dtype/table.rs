//! The table of dtypes that every language shares.
//!
//! To add a dtype, add a row here. What depends on a dtype's elements is generated from the rows,
//! or does not compile, or fails its test, until it has a row of its own: CONTRIBUTING.md, "How to
//! add …", says where.

/// Calls a macro with the given token trees and, after them, all rows.
///
/// A row has the number of the code in the C ABI, the name, NumPy's type string, the Rust type of
/// an element, and its [`DTypeKind`](super::DTypeKind). `as` names the type with Rust's arithmetic
/// that represents every element exactly, where the type has no arithmetic of its own.
macro_rules! with_dtypes {
    ($callback:ident $(, $before:tt)*) => {
        $callback! {
            $($before)*
            /// One byte, 0 or 1.
            Bool = 1, "bool", "|b1", bool: Bool;
            /// Signed, 1 byte.
            Int8 = 2, "int8", "|i1", i8: Signed;
            /// Signed, 2 bytes.
            Int16 = 3, "int16", "<i2", i16: Signed;
            /// Signed, 4 bytes.
            Int32 = 4, "int32", "<i4", i32: Signed;
            /// Signed, 8 bytes.
            Int64 = 5, "int64", "<i8", i64: Signed;
            /// Unsigned, 1 byte.
            UInt8 = 6, "uint8", "|u1", u8: Unsigned;
            /// Unsigned, 2 bytes.
            UInt16 = 7, "uint16", "<u2", u16: Unsigned;
            /// Unsigned, 4 bytes.
            UInt32 = 8, "uint32", "<u4", u32: Unsigned;
            /// Unsigned, 8 bytes.
            UInt64 = 9, "uint64", "<u8", u64: Unsigned;
            /// IEEE 754 binary16.
            Float16 = 10, "float16", "<f2", half::f16: Float as f32;
            /// IEEE 754 binary32.
            Float32 = 11, "float32", "<f4", f32: Float;
            /// IEEE 754 binary64.
            Float64 = 12, "float64", "<f8", f64: Float;
            /// Two binary32: real, imaginary.
            Complex64 = 13, "complex64", "<c8", num_complex::Complex<f32>: Complex;
            /// Two binary64: real, imaginary.
            Complex128 = 14, "complex128", "<c16", num_complex::Complex<f64>: Complex;
        }
    };
}

pub(crate) use with_dtypes;
