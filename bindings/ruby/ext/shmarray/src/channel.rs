//! The class `Shmarray::Channel`: loans and deliveries, and waits in steps.
//!
//! A call here waits for a short time at most, without Ruby's lock. `lib/shmarray/waits.rb` calls
//! again: between two calls other threads, signal handlers and `Thread#kill` run.
#![allow(unsafe_code)] // the derives write unsafe code

use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use magnus::value::ReprValue;
use magnus::{
    Class, DataTypeFunctions, Error, Module, Object, RArray, RClass, RModule, RString, Ruby,
    Symbol, TypedData, Value, method,
};
use shmarray::{Channel, ChannelOptions, Delivered, Delivery, Loan, Loaned, Posted};

use crate::array::{ArrayObject, array_of};
use crate::error::{OrRaise, closed, named_class, type_error, unless_closed};
use crate::gvl::{look_up_class, waiting};
use crate::{arguments, numo_shared};

#[derive(TypedData)]
#[magnus(class = "Shmarray::Channel", free_immediately, size)]
struct ChannelObject {
    /// `None` after it was closed.
    channel: RefCell<Option<Arc<Channel>>>,
    /// How the stream ended, when its end was seen.
    sender_died: Cell<bool>,
}

/// A slot on loan; `None` after it was published or given back.
#[derive(TypedData)]
#[magnus(class = "Shmarray::Channel::Loan", free_immediately, size)]
struct LoanObject(RefCell<Option<Loan>>);

/// A received message.
#[derive(TypedData)]
#[magnus(class = "Shmarray::Channel::Delivery", free_immediately, size)]
struct DeliveryObject {
    /// `None` after it was released, or its arrays keep the slot.
    delivery: RefCell<Option<Delivery>>,
    sequence: u64,
    time_ns: u64,
    missed: u64,
    meta: Vec<u8>,
}

impl DataTypeFunctions for ChannelObject {}
impl DataTypeFunctions for LoanObject {}
impl DataTypeFunctions for DeliveryObject {}

/// Defines the classes.
pub(crate) fn define(ruby: &Ruby, shmarray: RModule) -> Result<(), Error> {
    let error = named_class(ruby, "Shmarray::Error")?;
    shmarray.define_error("Full", error)?;
    let channel = shmarray.define_class("Channel", ruby.class_object())?;
    channel.undef_default_alloc_func();
    channel.define_singleton_method("made", method!(made, 4))?;
    channel.define_singleton_method("opened", method!(opened, 3))?;
    channel.const_set("NO_SLOT", Loaned::TimedOut.to_string())?;
    channel.const_set("NO_MESSAGE", Delivered::TimedOut.to_string())?;
    channel.define_method("fileno", method!(ChannelObject::fileno, 0))?;
    channel.define_method("closed?", method!(ChannelObject::is_closed, 0))?;
    channel.define_method("close", method!(ChannelObject::close, 0))?;
    channel.define_method("name", method!(ChannelObject::name, 0))?;
    channel.define_method("handle", method!(ChannelObject::handle, 0))?;
    channel.define_method("shape", method!(ChannelObject::shape, 0))?;
    channel.define_method("dtype", method!(ChannelObject::dtype, 0))?;
    channel.define_method("slots", method!(ChannelObject::slots, 0))?;
    channel.define_method("mode", method!(ChannelObject::mode, 0))?;
    channel.define_method("follower?", method!(ChannelObject::is_follower, 0))?;
    channel.define_method("sender_died?", method!(ChannelObject::sender_died, 0))?;
    channel.define_private_method("ready_within", method!(ChannelObject::ready_within, 1))?;
    channel.define_private_method("lend_within", method!(ChannelObject::lend_within, 2))?;
    channel.define_private_method("send_within", method!(ChannelObject::send_within, 3))?;
    channel.define_private_method("receive_within", method!(ChannelObject::receive_within, 1))?;
    let loan = channel.define_class("Loan", ruby.class_object())?;
    loan.undef_default_alloc_func();
    loan.define_method("array", method!(LoanObject::array, 0))?;
    loan.define_method("publish", method!(LoanObject::publish, 1))?;
    loan.define_method("cancel", method!(LoanObject::cancel, 0))?;
    let delivery = channel.define_class("Delivery", ruby.class_object())?;
    delivery.undef_default_alloc_func();
    delivery.define_method("sequence", method!(DeliveryObject::sequence, 0))?;
    delivery.define_method("time_ns", method!(DeliveryObject::time_ns, 0))?;
    delivery.define_method("missed", method!(DeliveryObject::missed, 0))?;
    delivery.define_method("meta", method!(DeliveryObject::meta, 0))?;
    delivery.define_private_method("array", method!(DeliveryObject::array, 0))?;
    delivery.define_private_method("release", method!(DeliveryObject::release, 0))?;
    delivery.define_private_method("let_go", method!(DeliveryObject::let_go, 0))?;
    look_up_class::<ChannelObject>(ruby)?;
    look_up_class::<LoanObject>(ruby)?;
    look_up_class::<DeliveryObject>(ruby)
}

/// Makes a channel. Without a dtype its messages are handles. The options are in the order in which
/// `lib/shmarray/channel.rb` has them.
fn made(
    ruby: &Ruby,
    class: RClass,
    name: String,
    dtype: Option<Value>,
    shape: Option<Value>,
    options: RArray,
) -> Result<Value, Error> {
    let options = options_of(ruby, options)?;
    let made = match dtype.zip(shape) {
        Some((dtype, shape)) => {
            let dtype = arguments::dtype(ruby, dtype)?;
            let shape = arguments::shape(ruby, shape)?;
            Channel::create(&name, dtype, &shape, &options)
        }
        None => Channel::create_by_handle(&name, &options),
    };
    Ok(ChannelObject::wrap(ruby, class, made.or_raise(ruby)?))
}

fn options_of(ruby: &Ruby, options: RArray) -> Result<ChannelOptions, Error> {
    type Entries = (u32, Symbol, Symbol, bool, bool, bool, u32, u32);
    let (slots, mode, when_full, exist_ok, varying, persist, file_mode, ends): Entries = (
        options.entry(0)?,
        options.entry(1)?,
        options.entry(2)?,
        options.entry(3)?,
        options.entry(4)?,
        options.entry(5)?,
        options.entry(6)?,
        options.entry(7)?,
    );
    Ok(ChannelOptions::new()
        .slots(slots)
        .mode(mode.name()?.parse().or_raise(ruby)?)
        .when_full(when_full.name()?.parse().or_raise(ruby)?)
        .exist_ok(exist_ok)
        .varying(varying)
        .persist(persist)
        .file_mode(file_mode)
        .ends(ends))
}

/// Opens the channel that has a handle or a name. Returns nil if there is none after so many
/// seconds.
fn opened(
    ruby: &Ruby,
    class: RClass,
    handle_or_name: Value,
    receives: bool,
    seconds: Option<f64>,
) -> Result<Option<Value>, Error> {
    let text = arguments::handle_or_name(ruby, handle_or_name)?;
    let channel = match seconds {
        None => Some(Channel::open(&text, receives).or_raise(ruby)?),
        Some(seconds) => {
            let step = duration(seconds);
            unless_interrupted(waiting(|| Channel::open_within(&text, receives, Some(step))))
                .or_raise(ruby)?
                .flatten()
        }
    };
    Ok(channel.map(|channel| ChannelObject::wrap(ruby, class, channel)))
}

/// The numbers of Ruby's are never negative here, and short.
fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO)
}

/// A signal ended the wait: Ruby's handlers run, and then the caller waits again.
fn unless_interrupted<T>(done: shmarray::Result<T>) -> shmarray::Result<Option<T>> {
    const EINTR: i32 = 4;
    match done {
        Err(error) if error.os_errno() == Some(EINTR) => Ok(None),
        done => done.map(Some),
    }
}

impl ChannelObject {
    /// Makes an object of the class that was asked, which may be a child of `Shmarray::Channel`.
    fn wrap(ruby: &Ruby, class: RClass, channel: Channel) -> Value {
        let channel = RefCell::new(Some(Arc::new(channel)));
        ruby.obj_wrap_as(Self { channel, sender_died: Cell::new(false) }, class).as_value()
    }

    fn open(ruby: &Ruby, this: &Self) -> Result<Arc<Channel>, Error> {
        unless_closed(ruby, &this.channel, "channel").map(|channel| Arc::clone(&channel))
    }

    fn fileno(ruby: &Ruby, this: &Self) -> Result<c_int, Error> {
        Self::open(ruby, this)?.fd().or_raise(ruby)
    }

    fn is_closed(&self) -> bool {
        self.channel.borrow().is_none()
    }

    fn close(&self) {
        if let Some(channel) = self.channel.take() {
            channel.close(); // threads that wait have it, too
        }
    }

    fn name(ruby: &Ruby, this: &Self) -> Result<String, Error> {
        Ok(Self::open(ruby, this)?.name().to_owned())
    }

    fn handle(ruby: &Ruby, this: &Self) -> Result<String, Error> {
        Ok(Self::open(ruby, this)?.handle())
    }

    fn shape(ruby: &Ruby, this: &Self) -> Result<Option<RArray>, Error> {
        let channel = Self::open(ruby, this)?;
        let shape = || ruby.ary_from_iter(channel.shape().iter().copied());
        Ok((!channel.has_handles()).then(shape))
    }

    fn dtype(ruby: &Ruby, this: &Self) -> Result<Option<String>, Error> {
        let channel = Self::open(ruby, this)?;
        Ok((!channel.has_handles()).then(|| channel.dtype().text().to_owned()))
    }

    fn slots(ruby: &Ruby, this: &Self) -> Result<u32, Error> {
        Ok(Self::open(ruby, this)?.slots())
    }

    fn mode(ruby: &Ruby, this: &Self) -> Result<Symbol, Error> {
        Ok(ruby.to_symbol(Self::open(ruby, this)?.mode().name()))
    }

    fn is_follower(ruby: &Ruby, this: &Self) -> Result<bool, Error> {
        Ok(Self::open(ruby, this)?.is_follower())
    }

    fn sender_died(&self) -> bool {
        self.sender_died.get()
    }

    /// Returns whether a receive would not wait, after so many seconds.
    fn ready_within(ruby: &Ruby, this: &Self, seconds: f64) -> Result<bool, Error> {
        let channel = Self::open(ruby, this)?;
        let ready = waits(seconds, |step| channel.wait_until_ready(Some(step)));
        Ok(unless_interrupted(ready).or_raise(ruby)?.unwrap_or(false))
    }

    /// Returns a loan, or nil if no slot was free in so many seconds.
    fn lend_within(
        ruby: &Ruby,
        this: &Self,
        shape: Option<Value>,
        seconds: f64,
    ) -> Result<Option<Value>, Error> {
        let channel = Self::open(ruby, this)?;
        let shape = shape.map(|shape| arguments::shape(ruby, shape)).transpose()?;
        let loaned = waits(seconds, |step| match &shape {
            Some(shape) => channel.loan_shape(shape, Some(step)),
            None => channel.loan(Some(step)),
        });
        match unless_interrupted(loaned).or_raise(ruby)? {
            Some(Loaned::Loan(loan)) => {
                Ok(Some(ruby.obj_wrap(LoanObject(RefCell::new(Some(loan)))).as_value()))
            }
            Some(Loaned::TimedOut) | None => Ok(None),
            Some(ref outcome @ Loaned::Full) => Err(full(ruby, outcome)?),
            Some(_) => Err(shmarray::Error::UNKNOWN_OUTCOME).or_raise(ruby),
        }
    }

    /// Sends an array. Returns whether a slot was free in so many seconds.
    fn send_within(
        ruby: &Ruby,
        this: &Self,
        array: Value,
        meta: RString,
        seconds: f64,
    ) -> Result<bool, Error> {
        let channel = Self::open(ruby, this)?;
        let array = match array_of(ruby, array) {
            Some(found) => shmarray::Array::clone(&*found?),
            None if numo_shared::is_numo(ruby, array) => numo_shared::shared_copy(ruby, array)?,
            None => {
                let text = format!("{} is not an array", array.inspect());
                return Err(type_error(ruby, text));
            }
        };
        let meta = bytes_of(meta);
        let posted = waits(seconds, |step| channel.send_array(&array, &meta, Some(step)));
        match unless_interrupted(posted).or_raise(ruby)? {
            Some(Posted::Posted(_)) => Ok(true),
            Some(Posted::TimedOut) | None => Ok(false),
            Some(ref outcome @ Posted::Full) => Err(full(ruby, outcome)?),
            Some(_) => Err(shmarray::Error::UNKNOWN_OUTCOME).or_raise(ruby),
        }
    }

    /// Returns a delivery, or nil if no message came in so many seconds.
    fn receive_within(ruby: &Ruby, this: &Self, seconds: f64) -> Result<Option<Value>, Error> {
        let channel = Self::open(ruby, this)?;
        let received = waits(seconds, |step| channel.receive(Some(step)));
        match unless_interrupted(received).or_raise(ruby)? {
            Some(Delivered::Message(delivery)) => {
                Ok(Some(ruby.obj_wrap(DeliveryObject::new(delivery)).as_value()))
            }
            Some(Delivered::TimedOut) | None => Ok(None),
            Some(ref ended @ Delivered::Ended { died, .. }) => {
                this.sender_died.set(died);
                Err(Error::new(ruby.exception_eof_error(), ended.to_string()))
            }
            Some(_) => Err(shmarray::Error::UNKNOWN_OUTCOME).or_raise(ruby),
        }
    }
}

/// Tries, and then waits without Ruby's lock.
fn waits<T: Send>(
    seconds: f64,
    attempt: impl FnOnce(Duration) -> shmarray::Result<T> + Send,
) -> shmarray::Result<T> {
    match duration(seconds) {
        Duration::ZERO => attempt(Duration::ZERO),
        step => waiting(|| attempt(step)),
    }
}

fn full(ruby: &Ruby, outcome: &impl Display) -> Result<Error, Error> {
    Ok(Error::new(named_class(ruby, "Shmarray::Full")?, outcome.to_string()))
}

fn bytes_of(text: RString) -> Vec<u8> {
    // SAFETY: no Ruby code runs that could change the String while the slice is borrowed.
    unsafe { text.as_slice() }.to_vec()
}

impl LoanObject {
    /// Returns the array to fill.
    fn array(ruby: &Ruby, this: &Self) -> Result<Value, Error> {
        let array = unless_closed(ruby, &this.0, "loan")?.array().clone();
        Ok(ArrayObject::holding(ruby, array))
    }

    /// Publishes the array. Returns the number of the message.
    fn publish(ruby: &Ruby, this: &Self, meta: RString) -> Result<u64, Error> {
        let loan = this.0.take().ok_or_else(|| closed(ruby, "loan"))?;
        loan.publish(&bytes_of(meta)).or_raise(ruby)
    }

    fn cancel(&self) {
        if let Some(loan) = self.0.take() {
            loan.cancel();
        }
    }
}

impl DeliveryObject {
    fn new(delivery: Delivery) -> Self {
        Self {
            sequence: delivery.sequence(),
            time_ns: delivery.time_ns(),
            missed: delivery.missed(),
            meta: delivery.meta().to_vec(),
            delivery: RefCell::new(Some(delivery)),
        }
    }

    fn sequence(&self) -> u64 {
        self.sequence
    }

    fn time_ns(&self) -> u64 {
        self.time_ns
    }

    fn missed(&self) -> u64 {
        self.missed
    }

    fn meta(ruby: &Ruby, this: &Self) -> RString {
        ruby.str_from_slice(&this.meta)
    }

    /// Returns the array, in its slot.
    fn array(ruby: &Ruby, this: &Self) -> Result<Value, Error> {
        let array = this.delivery.borrow().as_ref().map(|delivery| delivery.array().clone());
        Ok(ArrayObject::holding(ruby, array.ok_or_else(|| closed(ruby, "delivery"))?))
    }

    /// Gives the slot back, also if there are arrays in it.
    fn release(&self) {
        if let Some(delivery) = self.delivery.take() {
            delivery.release();
        }
    }

    /// Lets the arrays in the slot keep it.
    fn let_go(&self) {
        drop(self.delivery.take());
    }
}
