//! Mirrors Numo's structs, and probes that the mirror is right.
//!
//! Numo is not linked: its arrays are structs behind Ruby's typed data, which are mirrored here
//! field by field. The probe makes small arrays by Numo's own methods when the binding is loaded,
//! finds Numo's data types through them, and compares them with the mirror. Any difference stops
//! the loading, so an unknown Numo is an error and not a crash. One mirror serves numo-narray 0.9
//! and numo-narray-alt 0.11.
//!
//! Invariants, for every class in [`Numo::classes`] once [`probe`] has passed:
//!
//! * I1 An object that `rb_typeddata_is_kind_of` finds under [`Numo::any`] begins with an
//!   [`NArray`]; with kind [`DATA`] it is an [`NArrayData`], with kind [`VIEW`] an [`NArrayView`].
//! * I2 `shape` points at `ndim` counts: at `size` itself below two dimensions, else at memory from
//!   Ruby's allocator.
//! * I3 The `data` of a view is an array of kind [`DATA`], and its `steps` are `ndim` words:
//!   `stride << 1 | 1` in bytes, or a pointer to a table of offsets, which is even.
#![allow(unsafe_code)] // structs of another library

use std::sync::OnceLock;

use magnus::rb_sys::AsRawValue;
use magnus::value::{Opaque, ReprValue};
use magnus::{Error, Module, RClass, RModule, RTypedData, Ruby, Value};
use rb_sys::{
    RTYPEDDATA_GET_DATA, RTYPEDDATA_TYPE, VALUE, rb_data_type_t, rb_typeddata_is_kind_of,
};
use shmarray::{DType, TypeCode};

/// The kind of an array that has its elements.
pub(crate) const DATA: u8 = 1;
/// The kind of a view of another array.
pub(crate) const VIEW: u8 = 2;
/// The bit of `flags[0]` that is set if the bytes of each element are swapped.
pub(crate) const SWAPPED: u8 = 1;
/// The bit of `flags[0]` that is set if the shape is reversed. Numo defines it and does not use it.
pub(crate) const COLUMN_MAJOR: u8 = 2;
/// The most dimensions for which Numo's loops have room.
pub(crate) const MAX_NDIM: usize = 62;

/// The fields with which every Numo array begins.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct NArray {
    pub(crate) ndim: u8,
    pub(crate) kind: u8,
    pub(crate) flags: [u8; 2],
    pub(crate) element_bytes: u16,
    pub(crate) size: usize,
    pub(crate) shape: *mut usize,
    pub(crate) reduce: VALUE,
}

/// An array that has its elements.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct NArrayData {
    pub(crate) front: NArray,
    pub(crate) elements: *mut u8,
    /// A C `bool`, which some compilers make an `int`; the bytes after it are padding either way.
    pub(crate) owned: u32,
}

/// A view of another array.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct NArrayView {
    pub(crate) front: NArray,
    pub(crate) data: VALUE,
    pub(crate) offset: usize,
    pub(crate) steps: *mut isize,
}

/// The sizes of an element, to which each class's data type points.
#[repr(C)]
#[derive(Clone, Copy)]
struct TypeInfo {
    bits: u32,
    bytes: u32,
    stride: u32,
}

const _: () = assert!(
    size_of::<NArray>() == 32 && size_of::<NArrayData>() == 48 && size_of::<NArrayView>() == 56
);

/// The classes that have a dtype.
const CLASSES: &[(&str, TypeCode)] = &[
    ("Int8", TypeCode::Int8),
    ("Int16", TypeCode::Int16),
    ("Int32", TypeCode::Int32),
    ("Int64", TypeCode::Int64),
    ("UInt8", TypeCode::UInt8),
    ("UInt16", TypeCode::UInt16),
    ("UInt32", TypeCode::UInt32),
    ("UInt64", TypeCode::UInt64),
    ("SFloat", TypeCode::Float32),
    ("DFloat", TypeCode::Float64),
    ("SComplex", TypeCode::Complex64),
    ("DComplex", TypeCode::Complex128),
];

/// One of Numo's classes.
pub(crate) struct NumoClass {
    pub(crate) dtype: DType,
    class: Opaque<RClass>,
    /// The class's own data type.
    pub(crate) stock: &'static rb_data_type_t,
}

impl NumoClass {
    pub(crate) fn class(&self, ruby: &Ruby) -> RClass {
        ruby.get_inner(self.class)
    }
}

/// Numo as the probe found it.
pub(crate) struct Numo {
    pub(crate) classes: Vec<NumoClass>,
    /// The parent of all of Numo's data types.
    any: &'static rb_data_type_t,
}

// SAFETY: its data types are constants of a library that Ruby never unloads, and `Opaque` guards
// the classes.
unsafe impl Send for Numo {}
// SAFETY: nothing is changed after the probe: the data types are constants, and `Opaque` guards the
// classes.
unsafe impl Sync for Numo {}

static NUMO: OnceLock<Numo> = OnceLock::new();

/// Returns Numo. The binder has probed it before it defined any method that asks.
pub(crate) fn numo(ruby: &Ruby) -> Result<&'static Numo, Error> {
    let unbound = || Error::new(ruby.exception_runtime_error(), "require \"numo/shared\" first");
    NUMO.get().ok_or_else(unbound)
}

/// Finds Numo's classes and data types, and compares its arrays with the mirror.
pub(crate) fn probe(ruby: &Ruby) -> Result<(), Error> {
    let module: RModule = ruby.class_object().const_get("Numo")?;
    let classes =
        CLASSES.iter().map(|row| probe_class(ruby, module, row)).collect::<Result<Vec<_>, _>>()?;
    let parents = classes.iter().map(|class| class.stock.parent).collect::<Vec<_>>();
    // SAFETY: a parent is null or a constant of Numo's library, which Ruby never unloads.
    let any = unsafe { parents[0].as_ref() };
    match any {
        Some(any) if parents.iter().all(|parent| *parent == parents[0]) => {
            NUMO.get_or_init(|| Numo { classes, any });
            Ok(())
        }
        _ => Err(unknown(ruby, "its classes have no data type in common")),
    }
}

impl Numo {
    /// Returns the struct of an object if it is a Numo array.
    pub(crate) fn narray(&self, value: Value) -> Option<*mut NArray> {
        // SAFETY: the function takes any value, and `any` is a data type of a library that stays
        // loaded.
        let is_narray = unsafe { rb_typeddata_is_kind_of(value.as_raw(), self.any) } != 0;
        is_narray.then(|| struct_of(value.as_raw()).cast())
    }

    /// Returns the row of an array's class.
    pub(crate) fn class_of(&self, ruby: &Ruby, class: RClass) -> Option<&NumoClass> {
        self.classes.iter().find(|row| row.class(ruby).as_raw() == class.as_raw())
    }

    /// Returns the row of a dtype.
    pub(crate) fn class_for(&self, dtype: &DType) -> Option<&NumoClass> {
        self.classes.iter().find(|row| row.dtype == *dtype)
    }
}

/// Returns the struct behind typed data.
pub(crate) fn struct_of(object: VALUE) -> *mut u8 {
    // SAFETY: the callers pass Numo's arrays, which [`typed`] or [`Numo::narray`] found to be typed
    // data.
    unsafe { RTYPEDDATA_GET_DATA(object) }.cast()
}

/// Returns the data type of typed data.
pub(crate) fn type_of<'a>(object: VALUE) -> Option<&'a rb_data_type_t> {
    // SAFETY: the callers pass Numo's arrays or an `RTypedData`, which are typed data.
    let data_type = unsafe { RTYPEDDATA_TYPE(object) };
    // SAFETY: a data type lives as long as the objects of it, and the caller holds one.
    unsafe { data_type.as_ref() }
}

fn unknown(ruby: &Ruby, difference: &str) -> Error {
    let text = format!(
        "the installed numo-narray is of a kind that shmarray {} does not know: {difference}; \
         numo-narray 0.9 and numo-narray-alt 0.11 are known",
        shmarray::VERSION
    );
    Error::new(ruby.exception_load_error(), text)
}

fn probe_class(ruby: &Ruby, module: RModule, row: &(&str, TypeCode)) -> Result<NumoClass, Error> {
    let class: RClass = module.const_get(row.0)?;
    let dtype = DType::from_code(row.1).ok_or_else(|| unknown(ruby, row.0))?;
    let array: Value = class.funcall("zeros", (2, 3))?;
    let _: Value = array.funcall("[]=", (1, 0, 1))?;
    let itemsize = dtype.itemsize() as usize;
    let difference = |what| unknown(ruby, &format!("Numo::{}: {what}", row.0));
    let stock = typed(array).map_err(difference)?;
    check_type(stock, itemsize).map_err(difference)?;
    check_data(array, stock, itemsize).map_err(difference)?;
    check_view(array, array.funcall("transpose", ())?, itemsize).map_err(difference)?;
    check_line(class.funcall("zeros", (5,))?).map_err(difference)?;
    Ok(NumoClass { dtype, class: class.into(), stock })
}

/// `Ok`, or the name of the field that differs.
type Checked = Result<(), &'static str>;

fn expect(holds: bool, what: &'static str) -> Checked {
    if holds { Ok(()) } else { Err(what) }
}

/// Returns the data type of an object that Numo made.
fn typed<'a>(object: Value) -> Result<&'a rb_data_type_t, &'static str> {
    let typed = RTypedData::from_value(object).and_then(|object| type_of(object.as_raw()));
    typed.ok_or("an array that is no typed data")
}

fn check_type(stock: &rb_data_type_t, itemsize: usize) -> Checked {
    expect(!stock.data.is_null(), "type info")?;
    // SAFETY: the pointer is not null, as checked above, and every version of Numo has three
    // numbers there.
    let info = unsafe { stock.data.cast::<TypeInfo>().read() };
    let sizes = [info.bits as usize, info.bytes as usize, info.stride as usize];
    expect(sizes == [0, itemsize, itemsize], "element size")
}

/// Checks an array of six elements, of which Numo set the one at 1, 0.
fn check_data(array: Value, stock: &rb_data_type_t, itemsize: usize) -> Checked {
    let found = struct_of(array.as_raw());
    // The struct's own report of its size is checked before any field is read.
    let expected = size_of::<NArrayData>() + 6 * itemsize + 2 * size_of::<usize>();
    expect(memory_bytes(stock, found) == Some(expected), "size of an array")?;
    // SAFETY: `memory_bytes` has just reported the size of an `NArrayData` and its parts.
    let found = unsafe { found.cast::<NArrayData>().read() };
    let front = found.front;
    expect(
        (front.ndim, front.kind, front.flags[0], front.size) == (2, DATA, 0, 6),
        "front of an array",
    )?;
    expect(counts(front.shape) == [2, 3], "shape of an array")?;
    expect(!found.elements.is_null() && found.owned & 0xff == 1, "elements of an array")?;
    // SAFETY: the pointer is not null, as checked above, and an array of shape 2, 3 has six
    // elements.
    let bytes = unsafe { std::slice::from_raw_parts(found.elements, 6 * itemsize) };
    let set = bytes.iter().position(|&byte| byte != 0).map(|at| at / itemsize);
    expect(set == Some(3), "order of elements")
}

fn check_view(array: Value, view: Value, itemsize: usize) -> Checked {
    let stock = typed(view)?;
    let expected = size_of::<NArrayView>() + 4 * size_of::<usize>();
    let found = struct_of(view.as_raw());
    expect(memory_bytes(stock, found) == Some(expected), "size of a view")?;
    // SAFETY: `memory_bytes` has just reported the size of an `NArrayView` and its parts.
    let found = unsafe { found.cast::<NArrayView>().read() };
    expect(
        (found.front.ndim, found.front.kind, found.front.size) == (2, VIEW, 6),
        "front of a view",
    )?;
    expect(counts(found.front.shape) == [3, 2], "shape of a view")?;
    expect(
        found.data == array.as_raw() && found.offset == 0 && !found.steps.is_null(),
        "data of a view",
    )?;
    let steps = counts(found.steps.cast()).map(|step| step >> 1);
    expect(counts(found.steps.cast()).iter().all(|step| step & 1 == 1), "steps of a view")?;
    expect(steps == [itemsize, 3 * itemsize], "strides of a view")
}

/// Checks an array with one dimension, whose shape points at its own size.
fn check_line(line: Value) -> Checked {
    typed(line)?;
    let found = struct_of(line.as_raw()).cast::<NArrayData>();
    // SAFETY: `check_data` has checked the struct of this class; only an address is taken.
    let size = unsafe { &raw mut (*found).front.size };
    // SAFETY: `check_data` has checked the struct of this class, and the object on the stack lives.
    let front = unsafe { (*found).front };
    expect(front.ndim == 1 && front.shape == size && front.size == 5, "shape of a line")
}

fn memory_bytes(stock: &rb_data_type_t, found: *mut u8) -> Option<usize> {
    let size = stock.function.dsize?;
    // SAFETY: `size` is the data type's own function, called with a struct of that type.
    Some(unsafe { size(found.cast()) } as usize)
}

fn counts(two: *const usize) -> [usize; 2] {
    if two.is_null() {
        return [0; 2];
    }
    // SAFETY: the pointer is not null, as checked above, and the probe's arrays have two
    // dimensions.
    unsafe { two.cast::<[usize; 2]>().read() }
}
