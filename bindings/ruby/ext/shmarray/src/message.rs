//! The classes `Shmarray::Pipe` and `Shmarray::Message`: pipes that carry arrays.
//!
//! Every call here returns at once. Waiting is done in Ruby, on the pipe's fd
//! (`lib/shmarray/pipe.rb`): so other threads run meanwhile, and whatever ends a thread's wait ends
//! this one, too.
#![allow(unsafe_code)] // takes an fd from Ruby, and the derives write unsafe code

use std::cell::RefCell;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use magnus::scan_args::scan_args;
use magnus::value::ReprValue;
use magnus::{
    Class, DataTypeFunctions, Error, Integer, Module, Object, RArray, RHash, RModule, RString,
    Ruby, TypedData, Value, function, method,
};
use shmarray::{Access, Array, Message, Pipe, Received, Sent};

use crate::array::{ArrayObject, array_of};
use crate::error::{OrRaise, argument_error, named_class, type_error, unless_closed};
use crate::gvl::look_up_class;
use crate::list::list_array;
use crate::slot_use::{Held, Part};
use crate::{arguments, numo_shared};

/// One end of a pipe; `None` after it was closed.
#[derive(TypedData)]
#[magnus(class = "Shmarray::Pipe", free_immediately, size)]
struct PipeObject(RefCell<Option<Pipe>>);

/// A received message; `None` after it was closed.
#[derive(TypedData)]
#[magnus(class = "Shmarray::Message", free_immediately, size)]
struct MessageObject(RefCell<Option<Message>>);

impl DataTypeFunctions for PipeObject {}

impl DataTypeFunctions for MessageObject {
    fn size(&self) -> usize {
        size_of::<Self>() + self.0.borrow().as_ref().map_or(0, |message| message.payload().len())
    }
}

/// Defines the classes.
pub(crate) fn define(ruby: &Ruby, shmarray: RModule) -> Result<(), Error> {
    let pipe = shmarray.define_class("Pipe", ruby.class_object())?;
    pipe.undef_default_alloc_func();
    pipe.define_singleton_method("pair", function!(pair, 0))?;
    pipe.define_singleton_method("from_fd", function!(from_fd, 1))?;
    pipe.const_set("NO_ROOM", Sent::TimedOut.to_string())?;
    pipe.const_set("NO_MESSAGE", Received::TimedOut.to_string())?;
    pipe.define_method("fileno", method!(PipeObject::fileno, 0))?;
    pipe.define_method("closed?", method!(PipeObject::is_closed, 0))?;
    pipe.define_private_method("let_go", method!(PipeObject::let_go, 0))?;
    pipe.define_private_method("try_send", method!(PipeObject::try_send, 2))?;
    pipe.define_private_method("try_receive", method!(PipeObject::try_receive, 0))?;
    let message = shmarray.define_class("Message", ruby.class_object())?;
    message.undef_default_alloc_func();
    message.define_method("payload", method!(MessageObject::payload, 0))?;
    message.define_method("size", method!(MessageObject::count, 0))?;
    message.define_method("array", method!(MessageObject::array, -1))?;
    message.define_method("close", method!(MessageObject::close, 0))?;
    message.define_method("closed?", method!(MessageObject::is_closed, 0))?;
    shmarray.define_singleton_method("own_array", function!(own_array, 2))?;
    shmarray.define_singleton_method("begin_family", function!(begin_family, 0))?;
    look_up_class::<PipeObject>(ruby)?;
    look_up_class::<MessageObject>(ruby)
}

fn pair(ruby: &Ruby) -> Result<RArray, Error> {
    let (one, other) = Pipe::pair().or_raise(ruby)?;
    Ok(ruby.ary_from_iter([one, other].map(|end| PipeObject::wrap(ruby, end))))
}

/// Makes a pipe of an fd. A copy of the fd is checked first, so the fd itself is taken only if it
/// is an end of a pipe.
fn from_fd(ruby: &Ruby, fd: Integer) -> Result<Value, Error> {
    let found = fd.to_i64().ok().and_then(|fd| RawFd::try_from(fd).ok()).filter(|fd| *fd >= 0);
    let fd = found.ok_or_else(|| argument_error(ruby, format!("invalid fd: {fd} is not an fd")))?;
    // SAFETY: the fd is not negative, as checked above, and is only given to `fcntl`, which reports
    // an fd that is not open.
    let copy = unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned();
    let os =
        |source| shmarray::Error::Os { call: "fcntl(F_DUPFD_CLOEXEC)", path: "".into(), source };
    Pipe::from_fd(copy.map_err(os).or_raise(ruby)?).or_raise(ruby)?;
    // SAFETY: the copy above proved that the fd is open, and the caller of `from_fd` gives it away.
    let end = Pipe::from_fd(unsafe { OwnedFd::from_raw_fd(fd) }).or_raise(ruby)?;
    Ok(PipeObject::wrap(ruby, end))
}

impl PipeObject {
    fn wrap(ruby: &Ruby, end: Pipe) -> Value {
        ruby.obj_wrap(Self(RefCell::new(Some(end)))).as_value()
    }

    fn fileno(ruby: &Ruby, this: &Self) -> Result<RawFd, Error> {
        Ok(unless_closed(ruby, &this.0, "pipe")?.as_fd().as_raw_fd())
    }

    fn is_closed(&self) -> bool {
        self.0.borrow().is_none()
    }

    fn let_go(&self) {
        drop(self.0.take());
    }

    /// Sends without waiting. Returns whether there was room.
    fn try_send(ruby: &Ruby, this: &Self, payload: RString, arrays: RArray) -> Result<bool, Error> {
        let arrays =
            arrays.into_iter().map(|value| sendable(ruby, value)).collect::<Result<Vec<_>, _>>()?;
        let arrays = arrays.iter().map(|held| &**held).collect::<Vec<&Array>>();
        // SAFETY: no Ruby code runs that could change the String while the slice is borrowed.
        let payload = unsafe { payload.as_slice() };
        let sent =
            unless_closed(ruby, &this.0, "pipe")?.send(payload, &arrays, Some(Duration::ZERO));
        match sent.or_raise(ruby)? {
            Sent::Sent => Ok(true),
            Sent::TimedOut => Ok(false),
            outcome @ Sent::Closed => {
                Err(Error::new(named_class(ruby, "Errno::EPIPE")?, outcome.to_string()))
            }
            _ => Err(shmarray::Error::UNKNOWN_OUTCOME).or_raise(ruby),
        }
    }

    /// Receives without waiting. Returns a message, or nil if none has come.
    fn try_receive(ruby: &Ruby, this: &Self) -> Result<Option<Value>, Error> {
        let received = unless_closed(ruby, &this.0, "pipe")?.receive(Some(Duration::ZERO));
        match received.or_raise(ruby)? {
            Received::Message(message) => {
                Ok(Some(ruby.obj_wrap(MessageObject(RefCell::new(Some(message)))).as_value()))
            }
            Received::TimedOut => Ok(None),
            ref outcome @ Received::Closed => {
                Err(Error::new(ruby.exception_eof_error(), outcome.to_string()))
            }
            _ => Err(shmarray::Error::UNKNOWN_OUTCOME).or_raise(ruby),
        }
    }
}

/// Converts a `Shmarray::Array`, a Numo array in shared memory, a list or a dictionary.
fn sendable(ruby: &Ruby, value: Value) -> Result<Held, Error> {
    if let Some(found) = array_of(ruby, value) {
        return found;
    }
    if numo_shared::is_numo(ruby, value) {
        return numo_shared::shared_array(ruby, value);
    }
    if let Some(list) = list_array(ruby, value) {
        return Ok(Held::new(list?, Part::None));
    }
    Err(type_error(ruby, format!("{} is not an array in shared memory", value.inspect())))
}

/// Returns one of the arrays of a message, which nobody else has: from now on it is this process's.
/// Returns nil if a copy is better, because little shared memory or few mappings are left.
fn own_array(ruby: &Ruby, message: &MessageObject, index: Integer) -> Result<Option<Value>, Error> {
    let is_copied = {
        let message = unless_closed(ruby, &message.0, "message")?;
        let index = index.to_usize().unwrap_or(usize::MAX);
        message.descriptors().get(index).is_some_and(shmarray::should_copy)
    };
    if is_copied {
        return Ok(None);
    }
    MessageObject::attach(ruby, message, index, Access::Owned).map(Some)
}

/// Makes this process a member of its family, if it has not used the library yet: processes that it
/// forks are of that family, too. It raises nothing: the next use of shared memory reports what is
/// wrong.
fn begin_family() {
    let _ = shmarray::family();
}

impl MessageObject {
    fn payload(ruby: &Ruby, this: &Self) -> Result<RString, Error> {
        Ok(ruby.str_from_slice(unless_closed(ruby, &this.0, "message")?.payload()))
    }

    fn count(ruby: &Ruby, this: &Self) -> Result<usize, Error> {
        Ok(unless_closed(ruby, &this.0, "message")?.descriptors().len())
    }

    /// Returns one of the arrays. Negative indices count from the end.
    fn array(ruby: &Ruby, this: &Self, arguments: &[Value]) -> Result<Value, Error> {
        let scanned = scan_args::<(Integer,), (), (), (), RHash, ()>(arguments)?;
        let index = scanned.required.0;
        let access = arguments::access(scanned.keywords)?;
        Self::attach(ruby, this, index, access)
    }

    fn attach(ruby: &Ruby, this: &Self, index: Integer, access: Access) -> Result<Value, Error> {
        let message = unless_closed(ruby, &this.0, "message")?;
        let count = message.descriptors().len() as i64;
        let position =
            index.to_i64().ok().map(|at| if at < 0 { at.saturating_add(count) } else { at });
        let position = position.and_then(|position| usize::try_from(position).ok());
        let array = position.map(|position| message.array(position, access));
        drop(message);
        match array {
            Some(array) => Ok(ArrayObject::holding(ruby, array.or_raise_index(ruby)?)),
            None => Err(Error::new(
                ruby.exception_index_error(),
                format!("no array {index} in a message of {count}"),
            )),
        }
    }

    fn close(&self) {
        drop(self.0.take());
    }

    fn is_closed(&self) -> bool {
        self.0.borrow().is_none()
    }
}
