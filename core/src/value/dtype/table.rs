//! The table of dtypes that every language shares.
//!
//! To add a dtype, add a row here. What depends on a dtype's elements is generated from the rows,
//! or does not compile, or fails its test, until it has a row of its own: CONTRIBUTING.md, "How to
//! add …", says where.

/// Calls a macro with the given token trees and, after them, all rows.
///
/// A row has the number of the code in the C ABI, the name, its text in a handle, the Rust type of
/// an element, and its [`DTypeKind`](super::DTypeKind). `as` names the type with Rust's arithmetic
/// that represents every element exactly, where the type has no arithmetic of its own. `as byte`
/// stands where a number has at most eight bits, so that a table can have the numbers of all bytes.
///
/// The text is NumPy's type string, or the name where NumPy has none of its own: that of the Python
/// package `ml_dtypes`.
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
            /// The upper half of a binary32.
            BFloat16 = 15, "bfloat16", "bfloat16", half::bf16: Float as f32;
            /// Two binary16: real, imaginary.
            Complex32 = 16, "complex32", "complex32", num_complex::Complex<half::f16>: Complex;
            /// Two bfloat16: real, imaginary.
            BComplex32 = 17, "bcomplex32", "bcomplex32", num_complex::Complex<half::bf16>: Complex;
            /// Sign, 3 bits of exponent, 4 of mantissa.
            Float8E3M4 = 18, "float8_e3m4", "float8_e3m4",
                crate::value::small::Float8E3M4: Float as byte;
            /// Sign, 4 bits of exponent, 3 of mantissa.
            Float8E4M3 = 19, "float8_e4m3", "float8_e4m3",
                crate::value::small::Float8E4M3: Float as byte;
            /// As `Float8E4M3`, without infinity.
            Float8E4M3FN = 20, "float8_e4m3fn", "float8_e4m3fn",
                crate::value::small::Float8E4M3FN: Float as byte;
            /// As `Float8E4M3`, with one NaN, one zero and a bias of 8.
            Float8E4M3FNUZ = 21, "float8_e4m3fnuz", "float8_e4m3fnuz",
                crate::value::small::Float8E4M3FNUZ: Float as byte;
            /// As `Float8E4M3FNUZ`, with a bias of 11.
            Float8E4M3B11FNUZ = 22, "float8_e4m3b11fnuz", "float8_e4m3b11fnuz",
                crate::value::small::Float8E4M3B11FNUZ: Float as byte;
            /// The upper half of a binary16.
            Float8E5M2 = 23, "float8_e5m2", "float8_e5m2",
                crate::value::small::Float8E5M2: Float as byte;
            /// As `Float8E5M2`, with one NaN, one zero and a bias of 16.
            Float8E5M2FNUZ = 24, "float8_e5m2fnuz", "float8_e5m2fnuz",
                crate::value::small::Float8E5M2FNUZ: Float as byte;
            /// A power of two: 8 bits of exponent.
            Float8E8M0FNU = 25, "float8_e8m0fnu", "float8_e8m0fnu",
                crate::value::small::Float8E8M0FNU: Float as byte;
            /// Sign, 2 bits of exponent, 3 of mantissa; only finite numbers. A byte each.
            Float6E2M3FN = 26, "float6_e2m3fn", "float6_e2m3fn",
                crate::value::small::Float6E2M3FN: Float as byte;
            /// Sign, 3 bits of exponent, 2 of mantissa; only finite numbers. A byte each.
            Float6E3M2FN = 27, "float6_e3m2fn", "float6_e3m2fn",
                crate::value::small::Float6E3M2FN: Float as byte;
            /// Sign, 2 bits of exponent, 1 of mantissa; only finite numbers. A byte each.
            Float4E2M1FN = 28, "float4_e2m1fn", "float4_e2m1fn",
                crate::value::small::Float4E2M1FN: Float as byte;
            /// Signed, 1 bit of a byte.
            Int1 = 29, "int1", "int1", crate::value::small::Int1: Signed as byte;
            /// Signed, 2 bits of a byte.
            Int2 = 30, "int2", "int2", crate::value::small::Int2: Signed as byte;
            /// Signed, 4 bits of a byte.
            Int4 = 31, "int4", "int4", crate::value::small::Int4: Signed as byte;
            /// Unsigned, 1 bit of a byte.
            UInt1 = 32, "uint1", "uint1", crate::value::small::UInt1: Unsigned as byte;
            /// Unsigned, 2 bits of a byte.
            UInt2 = 33, "uint2", "uint2", crate::value::small::UInt2: Unsigned as byte;
            /// Unsigned, 4 bits of a byte.
            UInt4 = 34, "uint4", "uint4", crate::value::small::UInt4: Unsigned as byte;
            /// No sign, 5 bits of exponent, 3 of mantissa; one NaN, no infinity.
            Float8E5M3FNU = 35, "float8_e5m3fnu", "float8_e5m3fnu",
                crate::value::small::Float8E5M3FNU: Float as byte;
        }
    };
}

pub(crate) use with_dtypes;
