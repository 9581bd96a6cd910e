//! The class `Shmarray::Array`: an array without Numo.

mod closable;
mod object;
mod elements;
mod compare;

use std::sync::Arc;

use magnus::scan_args::scan_args;
use magnus::value::ReprValue;
use magnus::{
    Class, Error, Module, Object, RArray, RClass, RHash, RModule, RString, Ruby, Value, function,
    method,
};
use shmarray::{Array, DType, Layout, Options, segments};

use crate::arguments;
use crate::collector::Counted;
use crate::error::{OrRaise, argument_error, type_error, with_room};
use crate::gvl::{copying, look_up_class};
use crate::index::{Selected, select};
use crate::slot_use::Part;
use closable::Open;
pub(crate) use elements::{Elements, check_writable, write_number};
pub(crate) use object::{ArrayObject, Self_, array_of, bytes_of};

/// Defines the class.
pub(crate) fn define(ruby: &Ruby, shmarray: RModule) -> Result<(), Error> {
    let dtypes = ruby.ary_from_iter(DType::ALL.iter().map(|dtype| ruby.str_new(dtype.text())));
    dtypes.freeze();
    shmarray.const_set("DTYPES", dtypes)?;
    let class = shmarray.define_class("Array", ruby.class_object())?;
    class.define_singleton_method("create", function!(create, -1))?;
    class.define_singleton_method("new", function!(create, -1))?;
    class.define_singleton_method("attach", function!(attach, -1))?;
    class.define_alloc_func::<ArrayObject>(); // for dup and clone, which initialize_copy fills
    class.singleton_class()?.funcall::<_, _, Value>("undef_method", ("allocate",))?;
    define_facts(class)?;
    class.define_private_method("initialize_copy", method!(initialize_copy, 1))?;
    class.define_method("to_bytes", method!(ArrayObject::to_bytes, 0))?;
    class.define_method("handle", method!(ArrayObject::handle, 0))?;
    class.define_method("handle_to_send", method!(ArrayObject::handle_to_send, 0))?;
    class.define_method("transpose", method!(ArrayObject::transpose, 0))?;
    class.define_method("reshape", method!(ArrayObject::reshape, -1))?;
    class.define_method("view", method!(ArrayObject::view, -1))?;
    class.define_method("close", method!(close, 0))?;
    class.define_method("closed?", method!(ArrayObject::is_closed, 0))?;
    elements::define(class)?;
    compare::define(class)?;
    look_up_class::<ArrayObject>(ruby)
}

fn define_facts(class: RClass) -> Result<(), Error> {
    class.define_method("shape", method!(ArrayObject::shape, 0))?;
    class.define_method("strides", method!(ArrayObject::strides, 0))?;
    class.define_method("ndim", method!(ArrayObject::ndim, 0))?;
    class.define_method("size", method!(ArrayObject::len, 0))?;
    class.define_method("length", method!(ArrayObject::len, 0))?;
    class.define_method("empty?", method!(ArrayObject::is_empty, 0))?;
    class.define_method("dtype", method!(ArrayObject::dtype, 0))?;
    class.define_method("name", method!(ArrayObject::name, 0))?;
    class.define_method("readonly?", method!(ArrayObject::is_readonly, 0))
}

fn create(ruby: &Ruby, arguments: &[Value]) -> Result<Value, Error> {
    let scanned = scan_args::<(Value, Value), (), RArray, (), RHash, ()>(arguments)?;
    let dtype = arguments::dtype(ruby, scanned.required.0)?;
    let shape = arguments::splat_shape(ruby, scanned.required.1, scanned.splat)?;
    let options = arguments::options(ruby, scanned.keywords)?;
    let array = with_room(ruby, || Array::create(dtype.clone(), &shape, &options))?;
    Ok(ArrayObject::holding(ruby, array))
}

fn attach(ruby: &Ruby, arguments: &[Value]) -> Result<Value, Error> {
    let scanned = scan_args::<(Value,), (), (), (), RHash, ()>(arguments)?;
    let text = arguments::handle_or_name(ruby, scanned.required.0)?;
    let access = arguments::access(scanned.keywords)?;
    let array = with_room(ruby, || Array::attach(&text, access))?;
    Ok(ArrayObject::holding(ruby, array))
}

impl ArrayObject {
    fn get(ruby: &Ruby, this: Self_, index: &[Value]) -> Result<Value, Error> {
        let array = this.array(ruby)?;
        match select(ruby, &array, index)? {
            Selected::Element(element) => Ok(Elements::of(&element).first()),
            Selected::View(view) => Ok(Self::viewing(ruby, this, &array, view)),
        }
    }

    fn to_bytes(ruby: &Ruby, this: &Self) -> Result<RString, Error> {
        let array = this.array(ruby)?;
        let bytes = copying(bytes_of(&array) as usize, || array.to_bytes()).or_raise(ruby)?;
        Ok(ruby.str_from_slice(&bytes))
    }

    fn shape(ruby: &Ruby, this: &Self) -> Result<Vec<u64>, Error> {
        Ok(this.array(ruby)?.shape().to_vec())
    }

    fn strides(ruby: &Ruby, this: &Self) -> Result<Vec<i64>, Error> {
        Ok(this.array(ruby)?.strides().to_vec())
    }

    fn ndim(ruby: &Ruby, this: &Self) -> Result<usize, Error> {
        Ok(this.array(ruby)?.shape().len())
    }

    fn len(ruby: &Ruby, this: &Self) -> Result<u64, Error> {
        Ok(this.array(ruby)?.layout().len())
    }

    fn is_empty(ruby: &Ruby, this: &Self) -> Result<bool, Error> {
        Ok(this.array(ruby)?.layout().is_empty())
    }

    fn dtype(ruby: &Ruby, this: &Self) -> Result<String, Error> {
        Ok(this.array(ruby)?.dtype().text().to_owned())
    }

    /// Returns the array's name. Only an array in a segment of its own has one, so for most arrays
    /// no file is read.
    fn name(ruby: &Ruby, this: &Self) -> Result<Option<String>, Error> {
        let segment = this.array(ruby)?.descriptor().segment;
        if segment.cell.is_some() {
            return Ok(None);
        }
        let all = segments().or_raise(ruby)?;
        Ok(all.into_iter().find(|info| info.segment == segment).and_then(|info| info.name))
    }

    fn handle(ruby: &Ruby, this: &Self) -> Result<String, Error> {
        let array = this.array(ruby)?;
        if array.is_in_slot() {
            return Err(argument_error(
                ruby,
                "the array lies in a slot of a channel: dup copies it",
            ));
        }
        Ok(array.handle())
    }

    fn handle_to_send(ruby: &Ruby, this: &Self) -> Result<String, Error> {
        this.array(ruby)?.handle_to_send().or_raise(ruby)
    }

    fn is_readonly(ruby: &Ruby, this: &Self) -> Result<bool, Error> {
        Ok(this.array(ruby)?.is_readonly())
    }

    fn transpose(ruby: &Ruby, this: Self_) -> Result<Value, Error> {
        let array = this.array(ruby)?;
        Ok(Self::viewing(ruby, this, &array, array.transpose()))
    }

    fn reshape(ruby: &Ruby, this: Self_, arguments: &[Value]) -> Result<Value, Error> {
        let array = this.array(ruby)?;
        let shape = arguments::new_shape(ruby, arguments, array.layout().len())?;
        let refused = |_| {
            let text = format!(
                "no view of this array has the shape {shape:?}: \
                 dup it first, the copy lies in C order"
            );
            argument_error(ruby, text)
        };
        let view = array.reshape(&shape).map_err(refused)?;
        Ok(Self::viewing(ruby, this, &array, view))
    }

    fn view(ruby: &Ruby, this: Self_, arguments: &[Value]) -> Result<Value, Error> {
        let scanned = scan_args::<(Value, Value), (Option<Value>,), (), (), (), ()>(arguments)?;
        let (shape, strides) = scanned.required;
        let shape = arguments::shape(ruby, shape)?;
        let strides = arguments::strides(ruby, strides)?;
        let offset = scanned.optional.0.map_or(Ok(0), |offset| arguments::offset(ruby, offset))?;
        let array = this.array(ruby)?;
        let view = array.view(&shape, &strides, offset).or_raise(ruby)?;
        Ok(Self::viewing(ruby, this, &array, view))
    }

    fn is_closed(&self) -> bool {
        self.0.with(|open| open.is_none())
    }
}

/// Makes a copy of the elements in C order, which nobody else has. The original may be frozen or
/// read-only.
fn initialize_copy(ruby: &Ruby, this: Self_, original: &ArrayObject) -> Result<Self_, Error> {
    this.check_frozen()?;
    if !this.is_closed() {
        return Err(type_error(ruby, "an array in shared memory cannot be initialized again"));
    }
    let array = copy_of(ruby, &*original.array(ruby)?)?;
    let counted = Some(Counted::array(&array));
    drop(this.0.replace(Some(Open { array: Arc::new(array), counted, part: Part::None })));
    Ok(this)
}

fn copy_of(ruby: &Ruby, array: &Array) -> Result<Array, Error> {
    let dtype = array.dtype();
    let layout = array.layout();
    let options = Options::default();
    // SAFETY: the layout is the array's own, checked when it was made, and counts from the start of
    // its segment's data.
    #[allow(unsafe_code)]
    let share = || unsafe {
        Array::share(array.segment_data().0.as_ptr(), dtype.clone(), layout, &options)
    };
    with_room(ruby, || copying(bytes_of(array) as usize, share))
}

/// Releases the memory. Views, buffers and MemoryViews of the array keep it.
pub(crate) fn close(this: Self_) -> Result<(), Error> {
    this.check_frozen()?;
    this.let_go();
    Ok(())
}

/// Returns the layout of the elements side by side in C order, from the first on.
pub(crate) fn dense(ruby: &Ruby, array: &Array) -> Result<Layout, Error> {
    Layout::contiguous(array.shape(), array.dtype().itemsize(), shmarray::Order::C).or_raise(ruby)
}
