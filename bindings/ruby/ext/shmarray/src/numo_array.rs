//! Makes Numo arrays over shared memory from core's arrays, and reads them back.
//!
//! # Rationale
//! Numo silently copies an array that it does not own at the first write, and gives one that it
//! owns to `free`. So the arrays made here are owned, and have data types of their own whose
//! parents are Numo's. Their class is exactly Numo's, and Numo accepts them everywhere; but Ruby's
//! collector calls [`free`] of this file, which drops the lease that follows the stock struct.
//! Views keep their base alive, and with it the lease.
//!
//! | layout | Numo array |
//! |---|---|
//! | side by side in C order | an array of our type over its own elements |
//! | any other | a patched stock view of a hidden array of size 0 over the segment's data |
//!
//! A forked child frees its copies of the arrays, too. That drops the child's mapping only: the
//! parent's mapping keeps the parent's hold, because the kernel keeps the lock as long as any
//! process maps the file.
//!
//! # Limitations
//! Methods that replace an array's memory or shape need a guard: `lib/numo/shared/guards.rb`.
#![allow(unsafe_code)] // structs of another library

use std::collections::HashMap;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::OnceLock;

use magnus::rb_sys::{AsRawValue, FromRawValue, protect};
use magnus::value::ReprValue;
use magnus::{Error, Ruby, Value};
use rb_sys::{
    VALUE, rb_data_type_struct__bindgen_ty_1, rb_data_type_t, rb_data_typed_object_wrap,
    rbimpl_typeddata_flags::{RUBY_TYPED_FREE_IMMEDIATELY, RUBY_TYPED_FROZEN_SHAREABLE},
    ruby_xfree, ruby_xmalloc2, size_t,
};
use shmarray::{Array, DType, DTypeKind, Layout, Order, TypeCode};

use crate::collector::Counted;
use crate::error::{argument_error, type_error};
use crate::numo::{
    COLUMN_MAJOR, DATA, MAX_NDIM, NArray, NArrayData, NArrayView, Numo, NumoClass, SWAPPED, VIEW,
    struct_of, type_of,
};
use crate::slot_use::Part;

/// The struct of an array of our type: the stock one, then the lease.
#[repr(C)]
struct SharedData {
    stock: NArrayData,
    lease: Array,
    part: Part,
    counted: Counted,
}

/// The data types, one for each class. Objects refer to them, so they live for ever.
static TYPES: OnceLock<HashMap<TypeCode, DataType>> = OnceLock::new();

struct DataType(rb_data_type_t);
// SAFETY: it holds function pointers, and pointers to constants of Numo's library, which stays
// loaded.
unsafe impl Send for DataType {}
// SAFETY: `define_types` makes the data types once, and nothing changes them afterwards.
unsafe impl Sync for DataType {}

/// Makes the data types, after Numo has been probed.
pub(crate) fn define_types(numo: &Numo) {
    let row = |class: &NumoClass| (class.dtype.code(), DataType(shared_type(class.stock)));
    TYPES.get_or_init(|| numo.classes.iter().map(row).collect());
}

/// Returns a child of the stock type. Numo accepts it by its `parent`, and reads the element size
/// from its `data`.
fn shared_type(stock: &'static rb_data_type_t) -> rb_data_type_t {
    let mut function: rb_data_type_struct__bindgen_ty_1 = stock.function;
    function.dfree = Some(free);
    function.dsize = Some(size);
    // Both flags are right: `free` calls no Ruby code, and a frozen array refers to no Ruby object.
    let flags =
        stock.flags | RUBY_TYPED_FREE_IMMEDIATELY as VALUE | RUBY_TYPED_FROZEN_SHAREABLE as VALUE;
    rb_data_type_t { function, parent: stock, flags, ..*stock }
}

unsafe extern "C" fn free(data: *mut c_void) {
    // SAFETY: `wrap` gave Ruby this pointer from `Box::into_raw`, and Ruby frees each object once.
    let mut shared = unsafe { Box::from_raw(data.cast::<SharedData>()) };
    let front = &mut shared.stock.front;
    if front.shape != &raw mut front.size {
        // SAFETY: the pointer is null, or came from Ruby's allocator in `set_shape` or in Numo's
        // `reshape!`.
        unsafe { ruby_xfree(front.shape.cast()) };
    }
    // A panic cannot be reported here, and must not reach Ruby's collector.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(shared)));
}

unsafe extern "C" fn size(data: *const c_void) -> size_t {
    // SAFETY: `wrap` gave Ruby this pointer to a `SharedData`, and Ruby asks only for live objects.
    let shared = unsafe { &*data.cast::<SharedData>() };
    (size_of::<SharedData>() + shared.counted.bytes()) as size_t
}

/// Makes the Numo array of a core array.
pub(crate) fn make(ruby: &Ruby, numo: &Numo, array: Array) -> Result<Value, Error> {
    make_part(ruby, numo, array, Part::None)
}

/// Does the same for an array that may lie in a slot.
pub(crate) fn make_part(
    ruby: &Ruby,
    numo: &Numo,
    array: Array,
    part: Part,
) -> Result<Value, Error> {
    let Some(class) = numo.class_for(array.dtype()) else {
        return Err(type_error(ruby, no_class(array.dtype(), "Shmarray::Array.attach")));
    };
    check(ruby, &array)?;
    let readonly = array.is_readonly();
    let made = if array.is_contiguous(Order::C) {
        own(ruby, class, array, part)?
    } else {
        strided(ruby, class, array, part)?
    };
    if readonly {
        made.freeze();
    }
    Ok(made)
}

/// Returns the text of the error for a dtype without a class in Numo. `reader` is the method that
/// reads it.
pub(crate) fn no_class(dtype: &DType, reader: &str) -> String {
    match dtype.name() {
        "list" if dtype.is_by_name() => {
            return "it is a list, and no array; Numo::Shared::List.attach reads it".into();
        }
        "dict" if dtype.is_by_name() => {
            return "it is a dictionary, and no array; Numo::Shared::Dict.attach reads it".into();
        }
        _ => {}
    }
    format!("Numo has no class for dtype {dtype}; {reader} reads it")
}

/// Refuses arrays that Numo's loops cannot take: they load whole aligned elements.
fn check(ruby: &Ruby, array: &Array) -> Result<(), Error> {
    let itemsize = array.dtype().itemsize();
    let parts = if array.dtype().kind() == Some(DTypeKind::Complex) { 2 } else { 1 };
    let part_bytes = itemsize / parts;
    let whole = |bytes: u64| bytes.is_multiple_of(part_bytes);
    let strides = array.strides().iter().zip(array.shape());
    let mut steps =
        strides.filter(|(_, count)| **count > 1).map(|(stride, _)| stride.unsigned_abs());
    let elsewhere = "; Shmarray::Array.attach reads it";
    if array.shape().len() > MAX_NDIM {
        let text =
            format!("Numo has {MAX_NDIM} dimensions, not {}{elsewhere}", array.shape().len());
        return Err(argument_error(ruby, text));
    }
    if whole(array.as_ptr() as u64) && steps.all(whole) {
        Ok(())
    } else {
        Err(argument_error(ruby, format!("its elements are not aligned, as Numo needs{elsewhere}")))
    }
}

/// Makes an array of our type over its own elements.
fn own(ruby: &Ruby, class: &NumoClass, array: Array, part: Part) -> Result<Value, Error> {
    let shape = array.shape().iter().map(|&count| count as usize).collect::<Vec<_>>();
    // Numo gives an array without elements no memory, and prints it accordingly.
    let elements = if array.layout().is_empty() { ptr::null_mut() } else { array.as_ptr() };
    wrap(ruby, class, (array, part), &shape, elements)
}

/// Makes a stock view of a hidden array. That one has size 0, so Numo never replaces its memory.
fn strided(ruby: &Ruby, class: &NumoClass, array: Array, part: Part) -> Result<Value, Error> {
    let layout = array.layout().clone();
    let start = array.segment_data().0.as_ptr();
    let readonly = array.is_readonly();
    let hidden = wrap(ruby, class, (array, part), &vec![0; layout.ndim()], start)?;
    let view: Value = hidden.funcall("view", ())?;
    let found = struct_of(view.as_raw()).cast::<NArrayView>();
    // SAFETY: Numo's method `view` returned the object, so its struct is an `NArrayView` (I1), and
    // nobody else has it.
    patch(unsafe { &mut *found }, &layout, class.dtype.itemsize() as isize);
    if readonly {
        hidden.freeze();
    }
    Ok(view)
}

/// Gives a fresh view with the same number of dimensions this layout.
fn patch(view: &mut NArrayView, layout: &Layout, itemsize: isize) {
    view.offset = layout.offset as usize;
    for (dim, (&count, &stride)) in layout.shape.iter().zip(&layout.strides).enumerate() {
        // A stride that counts fits 62 bits.
        let stride = if count > 1 { stride as isize } else { itemsize };
        // SAFETY: `steps` has a word for each dimension (I3), and `dim` is below their number.
        unsafe { view.steps.wrapping_add(dim).write(stride << 1 | 1) };
        // SAFETY: `shape` has a count for each dimension (I2), and `dim` is below their number.
        unsafe { view.front.shape.wrapping_add(dim).write(count as usize) };
    }
    view.front.size = layout.len() as usize;
}

fn wrap(
    ruby: &Ruby,
    class: &NumoClass,
    (lease, part): (Array, Part),
    shape: &[usize],
    elements: *mut u8,
) -> Result<Value, Error> {
    let Some(data_type) = TYPES.get().and_then(|types| types.get(&class.dtype.code())) else {
        return Err(Error::new(ruby.exception_runtime_error(), "require \"numo/shared\" first"));
    };
    let counted = Counted::array(&lease);
    let front = NArray {
        ndim: shape.len() as u8,
        kind: DATA,
        flags: [0; 2],
        element_bytes: 0, // as Numo leaves it
        size: shape.iter().product(),
        shape: ptr::null_mut(),
        reduce: ruby.integer_from_i64(0).as_raw(),
    };
    let stock = NArrayData { front, elements, owned: 1 };
    let data = Box::into_raw(Box::new(SharedData { stock, lease, part, counted }));
    let class = class.class(ruby).as_raw();
    // SAFETY: `data_type` is the type of a `SharedData`, so Ruby frees the struct with `free`,
    // once.
    let wrapped =
        protect(|| unsafe { rb_data_typed_object_wrap(class, data.cast(), &data_type.0) });
    // SAFETY: Ruby refused the struct, for lack of memory, so nobody else has it or frees it.
    let wrapped = wrapped.inspect_err(|_| unsafe { free(data.cast()) })?;
    // SAFETY: the object is not visible to anybody yet, so this is the only reference to its
    // struct.
    set_shape(unsafe { &mut (*data).stock.front }, shape)?;
    // SAFETY: `protect` returned the object that Ruby made, so it is a valid Ruby object.
    Ok(unsafe { Value::from_raw(wrapped) })
}

/// Sets the shape: at `size` below two dimensions, else in memory that Numo may free (I2).
fn set_shape(front: &mut NArray, shape: &[usize]) -> Result<(), Error> {
    if shape.len() < 2 {
        front.shape = &raw mut front.size;
        return Ok(());
    }
    let mut memory = ptr::null_mut::<usize>();
    protect(|| {
        // SAFETY: if there is no memory the function raises, which `protect` catches; nothing is to
        // be dropped.
        memory =
            unsafe { ruby_xmalloc2(shape.len() as size_t, size_of::<usize>() as size_t) }.cast();
        0
    })?;
    // SAFETY: the memory was just allocated for `shape.len()` counts, so it overlaps nothing.
    unsafe { ptr::copy_nonoverlapping(shape.as_ptr(), memory, shape.len()) };
    front.shape = memory;
    Ok(())
}

/// The layout and the memory of a Numo array.
pub(crate) struct NumoElements {
    /// The element whose indices are all zero; null before Numo has allocated any.
    pub(crate) start: *mut u8,
    /// The array that has the elements: itself, or the one that it is a view of.
    pub(crate) holder: VALUE,
    pub(crate) shape: Vec<u64>,
    /// In bytes; `None` for a view made with index arrays.
    pub(crate) strides: Option<Vec<i64>>,
    /// Whether the elements are in an array of our type, which Numo must not free.
    pub(crate) is_ours: bool,
    /// Whether they are in shared memory: in such an array, and not this process's alone.
    pub(crate) shared: bool,
    /// Whether the bytes of each element are swapped.
    pub(crate) swapped: bool,
    /// Whether Numo would read the shape from its end.
    pub(crate) reversed: bool,
    /// What holds the slot that the elements lie in, if they lie in one; `None` if the array may
    /// not be used any more.
    pub(crate) part: Option<Part>,
    /// The whole message that they are of, if they lie in a slot.
    pub(crate) message: Option<Array>,
}

/// Reads a Numo array. Returns `None` for any other object.
pub(crate) fn read(numo: &Numo, value: Value, itemsize: u64) -> Option<NumoElements> {
    let narray = numo.narray(value)?;
    // SAFETY: `narray` returned the struct of a Numo array, which begins with an `NArray` (I1).
    let front = unsafe { narray.read() };
    let shape = shape_of(&front);
    let has = |flag| front.flags[0] & flag != 0;
    let swapped = has(SWAPPED);
    let reversed = has(COLUMN_MAJOR);
    match front.kind {
        VIEW => {
            // SAFETY: the array's kind is `VIEW`, so its struct is an `NArrayView` (I1).
            let view = unsafe { narray.cast::<NArrayView>().read() };
            let start = elements_of(view.data).wrapping_add(view.offset);
            let strides = strides_of(&view);
            let (part, message) = slot_of(view.data);
            Some(NumoElements {
                start,
                holder: view.data,
                shape,
                strides,
                is_ours: is_ours(view.data),
                shared: is_in_shared(view.data),
                swapped,
                reversed,
                part,
                message,
            })
        }
        _ => {
            let strides =
                Layout::contiguous(&shape, itemsize, Order::C).ok().map(|layout| layout.strides);
            let holder = value.as_raw();
            let start = elements_of(holder);
            let (part, message) = slot_of(holder);
            Some(NumoElements {
                start,
                holder,
                shape,
                strides,
                is_ours: is_ours(holder),
                shared: is_in_shared(holder),
                swapped,
                reversed,
                part,
                message,
            })
        }
    }
}

/// Returns whether an object is a Numo array over shared memory.
pub(crate) fn is_shared(numo: &Numo, value: Value) -> bool {
    read(numo, value, 1).is_some_and(|found| found.shared)
}

/// Returns whether an object is a Numo array over memory of this library.
pub(crate) fn is_guarded(numo: &Numo, value: Value) -> bool {
    read(numo, value, 1).is_some_and(|found| found.is_ours)
}

/// Takes the memory from an array in a slot of a channel: its use is over. Numo then refuses to
/// read it and its views, since they have no elements, and to write to them, since the array is
/// frozen.
pub(crate) fn withdraw(value: Value) {
    let object = value.as_raw();
    if !is_ours(object) {
        return;
    }
    // SAFETY: `is_ours` found our data type, so the struct is a `SharedData`. Ruby's lock is held,
    // and Numo has no reference to the struct outside of its calls.
    let shared = unsafe { &mut *struct_of(object).cast::<SharedData>() };
    if matches!(shared.part, Part::Within(_)) {
        shared.stock.elements = ptr::null_mut();
        value.freeze();
    }
}

/// Returns what holds the slot of an array that has elements, which is `None` if its use of it is
/// over; and the message there.
fn slot_of(object: VALUE) -> (Option<Part>, Option<Array>) {
    if !is_ours(object) {
        return (Some(Part::None), None);
    }
    // SAFETY: `is_ours` found our data type, so the struct is a `SharedData`.
    let shared = unsafe { &*struct_of(object).cast::<SharedData>() };
    let message = shared.lease.is_in_slot().then(|| shared.lease.clone());
    (shared.part.hold(), message)
}

/// Returns whether the array that has the elements is of one of our data types.
fn is_ours(object: VALUE) -> bool {
    let ours = Some(free as unsafe extern "C" fn(*mut c_void));
    let same = |data_type: &rb_data_type_t| match (data_type.function.dfree, ours) {
        (Some(theirs), Some(ours)) => ptr::fn_addr_eq(theirs, ours),
        _ => false,
    };
    type_of(object).is_some_and(same)
}

/// Returns whether the array that has the elements is in shared memory.
fn is_in_shared(object: VALUE) -> bool {
    // SAFETY: `is_ours` found our data type, so the struct is a `SharedData`.
    is_ours(object) && !unsafe { &(*struct_of(object).cast::<SharedData>()).lease }.is_private()
}

fn elements_of(object: VALUE) -> *mut u8 {
    let data = struct_of(object);
    // SAFETY: the callers pass an array that has its elements, so this is an `NArrayData` (I1, I3).
    let elements = unsafe { (*data.cast::<NArrayData>()).elements };
    if elements.is_null() && is_ours(object) {
        // SAFETY: `is_ours` found our data type, so the struct is a `SharedData`. Without elements
        // the address is that of the lease.
        unsafe { &(*data.cast::<SharedData>()).lease }.as_ptr()
    } else {
        elements
    }
}

fn shape_of(front: &NArray) -> Vec<u64> {
    if front.ndim == 1 {
        // The size is what `shape` points at, except in a struct that was copied.
        return vec![front.size as u64];
    }
    words(front.shape, front.ndim).map(|count| count as u64).collect()
}

fn strides_of(view: &NArrayView) -> Option<Vec<i64>> {
    let stride = |step: usize| (step & 1 == 1).then_some(step as i64 >> 1);
    words(view.steps.cast(), view.front.ndim).map(stride).collect()
}

fn words(start: *const usize, count: u8) -> impl Iterator<Item = usize> {
    // SAFETY: the callers pass memory with `count` words: a shape (I2) or the steps of a view (I3).
    (0..usize::from(count)).map(move |at| unsafe { start.wrapping_add(at).read() })
}
