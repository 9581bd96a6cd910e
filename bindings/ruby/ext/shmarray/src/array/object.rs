//! The object of an array: holding it, viewing it, and what it is worth to the collector.

use std::sync::Arc;

use magnus::typed_data::Obj;
use magnus::value::ReprValue;
use magnus::{DataTypeFunctions, Error, Ruby, TryConvert, TypedData, Value};
use shmarray::{Array, size_bytes};

use super::closable::{Closable, Open};
use crate::collector::Counted;
use crate::error::closed;
use crate::slot_use::{Held, Part};

/// The Rust value of a `Shmarray::Array`: an array, until it is closed.
#[allow(unsafe_code)] // what the derive writes: this type under that class
#[derive(Default, TypedData)]
#[magnus(class = "Shmarray::Array", free_immediately, size, frozen_shareable)]
pub(crate) struct ArrayObject(pub(super) Closable);

impl DataTypeFunctions for ArrayObject {
    fn size(&self) -> usize {
        let counted = self.0.with(|open| open?.counted.as_ref().map(Counted::bytes));
        size_of::<Self>() + counted.unwrap_or(0)
    }
}

pub(crate) type Self_ = Obj<ArrayObject>;

impl ArrayObject {
    /// Returns the array, which stays mapped even if the object is closed meanwhile.
    pub(crate) fn array(&self, ruby: &Ruby) -> Result<Held, Error> {
        self.0.array().ok_or_else(|| closed(ruby, "array"))
    }

    /// Returns the array, for callers that raise nothing.
    pub(crate) fn open(&self) -> Option<Held> {
        self.0.array()
    }

    fn of(array: impl Into<Arc<Array>>, counted: Option<Counted>, part: Part) -> Self {
        Self(Closable::new(Open { array: array.into(), counted, part }))
    }

    /// Makes the object of a new hold, and tells the collector of it.
    pub(crate) fn holding(ruby: &Ruby, array: Array) -> Value {
        Self::having(ruby, array, Part::None)
    }

    /// Does the same for an array that may lie in a slot. Of a slot the collector is told nothing:
    /// the channel has its memory.
    pub(crate) fn having(ruby: &Ruby, array: impl Into<Arc<Array>>, part: Part) -> Value {
        let array = array.into();
        let counted = matches!(part, Part::None).then(|| Counted::array(&array));
        ruby.obj_wrap(Self::of(array, counted, part)).as_value()
    }

    /// Makes the object of a view of `this`, whose array is `held`. It is frozen if `this` is,
    /// since both have the same memory.
    pub(super) fn viewing(ruby: &Ruby, this: Self_, held: &Held, array: Array) -> Value {
        let part = held.clone().into_parts().1.within();
        let view = ruby.obj_wrap(Self::of(array, None, part)).as_value();
        if this.is_frozen() {
            view.freeze();
        }
        view
    }

    /// Makes an object that holds the array and that nobody can close: it is frozen.
    ///
    /// Ruby jumps out of a block, and drops a fiber in the middle of one, without running Rust's
    /// destructors: a hold in a Rust value would never be released.
    pub(crate) fn frozen(ruby: &Ruby, held: &Held) -> Self_ {
        let (array, part) = held.clone().into_parts();
        let frozen = ruby.obj_wrap(Self::of(array, None, part));
        frozen.freeze();
        frozen
    }

    /// Drops what the object has. The callers are the only ones that have the object, or it is not
    /// frozen.
    pub(crate) fn let_go(&self) {
        drop(self.0.replace(None));
    }
}

/// Returns the array of an object of the class.
pub(crate) fn array_of(ruby: &Ruby, value: Value) -> Option<Result<Held, Error>> {
    <&ArrayObject>::try_convert(value).ok().map(|object| object.array(ruby))
}

/// Returns the bytes of the array's elements.
pub(crate) fn bytes_of(array: &Array) -> u64 {
    size_bytes(array.shape(), array.dtype().itemsize()).unwrap_or(0)
}
