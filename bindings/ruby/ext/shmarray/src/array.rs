//! The class `Shmarray::Array`: an array without Numo.

use magnus::scan_args::scan_args;
use magnus::typed_data::Obj;
use magnus::value::ReprValue;
use magnus::{
    DataTypeFunctions, Error, Module, Object, RArray, RHash, RModule, RString, Ruby, TryConvert, TypedData, Value,
    function, method,
};
use shmarray::{Array, DType, Layout, Order, size_bytes};

use crate::arguments;
use crate::errors::{OrRaise, argument_error, with_room};
use crate::gvl::{Counted, copying};
use crate::index::{Selected, select};
use crate::{element, index};

/// What a `Shmarray::Array` holds. A view holds the same segment and counts nothing.
#[allow(unsafe_code)] // what the derive writes: this type under that class
#[derive(TypedData)]
#[magnus(class = "Shmarray::Array", free_immediately, size, frozen_shareable)]
pub(crate) struct ArrayObject {
    array: Array,
    counted: Option<Counted>,
}

impl DataTypeFunctions for ArrayObject {
    fn size(&self) -> usize {
        size_of::<Self>() + self.counted.as_ref().map_or(0, Counted::as_usize)
    }
}

type Self_ = Obj<ArrayObject>;

/// Defines the class.
pub(crate) fn define(ruby: &Ruby, shmarray: RModule) -> Result<(), Error> {
    let dtypes = ruby.ary_from_iter(DType::ALL.iter().map(|dtype| ruby.str_new(dtype.text())));
    dtypes.freeze();
    shmarray.const_set("DTYPES", dtypes)?;
    let class = shmarray.define_class("Array", ruby.class_object())?;
    class.define_singleton_method("create", function!(create, -1))?;
    class.define_singleton_method("new", function!(create, -1))?;
    class.define_singleton_method("attach", function!(attach, -1))?;
    class.define_method("[]", method!(ArrayObject::get, -1))?;
    class.define_method("[]=", method!(set, -1))?;
    class.define_method("each", method!(each, 0))?;
    class.define_method("to_a", method!(ArrayObject::to_a, 0))?;
    class.define_method("to_bytes", method!(ArrayObject::to_bytes, 0))?;
    class.define_method("shape", method!(ArrayObject::shape, 0))?;
    class.define_method("strides", method!(ArrayObject::strides, 0))?;
    class.define_method("ndim", method!(ArrayObject::ndim, 0))?;
    class.define_method("size", method!(ArrayObject::len, 0))?;
    class.define_method("dtype", method!(ArrayObject::dtype, 0))?;
    class.define_method("handle", method!(ArrayObject::handle, 0))?;
    class.define_method("handle_to_send", method!(ArrayObject::handle_to_send, 0))?;
    class.define_method("readonly?", method!(ArrayObject::is_readonly, 0))?;
    class.define_method("transpose", method!(ArrayObject::transpose, 0))?;
    class.define_method("view", method!(ArrayObject::view, -1))
}

fn create(ruby: &Ruby, arguments: &[Value]) -> Result<Value, Error> {
    let scanned = scan_args::<(Value, Value), (), (), (), RHash, ()>(arguments)?;
    let (dtype, shape) = scanned.required;
    let (dtype, shape) = (arguments::dtype(ruby, dtype)?, arguments::shape(ruby, shape)?);
    let options = arguments::options(ruby, scanned.keywords)?;
    let array = with_room(ruby, || Array::create(dtype.clone(), &shape, &options))?;
    Ok(ArrayObject::holding(ruby, array))
}

fn attach(ruby: &Ruby, arguments: &[Value]) -> Result<Value, Error> {
    let scanned = scan_args::<(Value,), (), (), (), RHash, ()>(arguments)?;
    let text = arguments::handle_or_name(ruby, scanned.required.0)?;
    let array = Array::attach(&text, arguments::access(scanned.keywords)?).or_raise(ruby)?;
    Ok(ArrayObject::holding(ruby, array))
}

impl ArrayObject {
    /// The array that it is.
    pub(crate) fn array(&self) -> &Array {
        &self.array
    }

    /// A new hold, which the collector must know of.
    pub(crate) fn holding(ruby: &Ruby, array: Array) -> Value {
        let counted = Some(Counted::bytes(bytes_of(&array)));
        ruby.obj_wrap(Self { array, counted }).as_value()
    }

    fn viewing(ruby: &Ruby, array: Array) -> Value {
        ruby.obj_wrap(Self { array, counted: None }).as_value()
    }

    fn get(ruby: &Ruby, this: &Self, index: &[Value]) -> Result<Value, Error> {
        match select(ruby, &this.array, index)? {
            Selected::Element(index) => element::read(ruby, &this.array, &index),
            Selected::View(view) => Ok(Self::viewing(ruby, view)),
        }
    }

    fn to_a(ruby: &Ruby, this: &Self) -> Result<Value, Error> {
        nested(ruby, &this.array, &mut vec![])
    }

    fn to_bytes(ruby: &Ruby, this: &Self) -> RString {
        let bytes = copying(bytes_of(&this.array) as usize, || this.array.to_bytes());
        ruby.str_from_slice(&bytes)
    }

    fn shape(&self) -> Vec<u64> {
        self.array.shape().to_vec()
    }

    fn strides(&self) -> Vec<i64> {
        self.array.strides().to_vec()
    }

    fn ndim(&self) -> usize {
        self.array.shape().len()
    }

    fn len(&self) -> u64 {
        self.array.layout().len()
    }

    fn dtype(&self) -> &str {
        self.array.dtype().text()
    }

    fn handle(&self) -> String {
        self.array.handle().to_text()
    }

    fn handle_to_send(ruby: &Ruby, this: &Self) -> Result<String, Error> {
        Ok(this.array.handle_to_send().or_raise(ruby)?.to_text())
    }

    fn is_readonly(&self) -> bool {
        self.array.is_readonly()
    }

    fn transpose(ruby: &Ruby, this: &Self) -> Value {
        Self::viewing(ruby, this.array.transpose())
    }

    fn view(ruby: &Ruby, this: &Self, arguments: &[Value]) -> Result<Value, Error> {
        let scanned = scan_args::<(Value, Value), (Option<i64>,), (), (), (), ()>(arguments)?;
        let (shape, strides) = scanned.required;
        let (shape, strides) = (arguments::shape(ruby, shape)?, arguments::strides(ruby, strides)?);
        let offset = scanned.optional.0.unwrap_or(0);
        Ok(Self::viewing(ruby, this.array.view(&shape, &strides, offset).or_raise(ruby)?))
    }
}

/// `array[…] = value`: the last argument is the value.
fn set(ruby: &Ruby, this: Self_, arguments: &[Value]) -> Result<(), Error> {
    this.check_frozen()?;
    let Some((&value, index)) = arguments.split_last() else {
        return Err(argument_error(ruby, "no value"));
    };
    match select(ruby, &this.array, index)? {
        Selected::Element(index) => element::write(ruby, &this.array, &index, value),
        Selected::View(view) => assign(ruby, &view, value),
    }
}

/// An array of the same shape and dtype, nested Arrays of the same shape, or one element for all.
fn assign(ruby: &Ruby, view: &Array, value: Value) -> Result<(), Error> {
    if let Ok(source) = <&ArrayObject>::try_convert(value) {
        return copy(ruby, view, &source.array);
    }
    match RArray::from_value(value) {
        Some(rows) => assign_rows(ruby, view, rows, &mut vec![]),
        None => index::indices(view.shape()).try_for_each(|index| element::write(ruby, view, &index, value)),
    }
}

fn copy(ruby: &Ruby, to: &Array, from: &Array) -> Result<(), Error> {
    to.expect_dtype(from.dtype().clone()).or_raise(ruby)?;
    let bytes = copying(bytes_of(from) as usize, || from.to_bytes()); // the two may be the same memory
    let layout = Layout::contiguous(from.shape(), from.dtype().item_bytes(), Order::C).or_raise(ruby)?;
    // SAFETY: `bytes` are the elements of that layout, and private.
    #[allow(unsafe_code)]
    let copied = copying(bytes.len(), || unsafe { to.fill_from(bytes.as_ptr(), &layout) });
    copied.or_raise(ruby)
}

fn assign_rows(ruby: &Ruby, view: &Array, rows: RArray, index: &mut Vec<u64>) -> Result<(), Error> {
    let dim = index.len();
    if view.shape().get(dim) != Some(&(rows.len() as u64)) {
        let text = format!("{} elements do not fit dimension {dim} of the shape {:?}", rows.len(), view.shape());
        return Err(argument_error(ruby, text));
    }
    for (at, row) in rows.into_iter().enumerate() {
        index.push(at as u64);
        match RArray::from_value(row) {
            Some(rows) => assign_rows(ruby, view, rows, index)?,
            None => element::write(ruby, view, index, row)?,
        }
        index.pop();
    }
    Ok(())
}

/// Elements in C order.
fn each(ruby: &Ruby, this: Self_) -> Result<Value, Error> {
    if !ruby.block_given() {
        return Ok(this.enumeratorize("each", ()).as_value());
    }
    for index in index::indices(this.array.shape()) {
        let _: Value = ruby.yield_value(element::read(ruby, &this.array, &index)?)?;
    }
    Ok(this.as_value())
}

/// The elements from an index on, in Arrays of Arrays; the element itself without dimensions.
fn nested(ruby: &Ruby, array: &Array, index: &mut Vec<u64>) -> Result<Value, Error> {
    let Some(&count) = array.shape().get(index.len()) else {
        return element::read(ruby, array, index);
    };
    let rows = ruby.ary_new_capa(count as usize);
    for at in 0..count {
        index.push(at);
        rows.push(nested(ruby, array, index)?)?;
        index.pop();
    }
    Ok(rows.as_value())
}

/// Bytes of the array's elements.
pub(crate) fn bytes_of(array: &Array) -> u64 {
    size_bytes(array.shape(), array.dtype().item_bytes()).unwrap_or(0)
}
