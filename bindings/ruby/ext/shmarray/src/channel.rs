//! The class `Shmarray::Channel`: loans and deliveries, and waits in steps.
//!
//! A call here waits for a short time at most, without Ruby's lock. `lib/shmarray/waits.rb` calls
//! again: between two calls other threads, signal handlers and `Thread#kill` run.
//!
//! The call that takes a slot also runs the block, and gives the slot back. Ruby looks for
//! interrupts in its own code and in the block, but not in between. So whatever ends the block (an
//! exception of another thread or of a signal handler, `Thread#kill`, `break`, `throw`), the slot
//! is published or given back at once. Only a fiber that is never resumed leaves it to the
//! collector: what is dropped lies in Ruby objects then, not on the stack of a block's caller.
#![allow(unsafe_code)] // the derives write unsafe code

use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::fmt::Display;
use std::os::fd::IntoRawFd as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use magnus::gc::Marker;
use magnus::typed_data::Obj;
use magnus::value::{Opaque, ReprValue};
use magnus::{
    Class, DataTypeFunctions, Error, Module, Object, RArray, RClass, RModule, RString, Ruby,
    Symbol, TryConvert, TypedData, Value, method,
};
use shmarray::{
    Array, Channel, ChannelOptions, ChannelStats, Delivered, Delivery, Loan, Loaned, Posted,
    Receives, WaitOutcome,
};

use crate::array::{ArrayObject, array_of};
use crate::error::{OrRaise, closed, named_class, type_error, unless_closed};
use crate::gvl::{look_up_class, waiting};
use crate::numo::numo;
use crate::slot_use::{Part, Slot, SlotUse};
use crate::{arguments, numo_array, numo_shared};

#[derive(TypedData)]
#[magnus(class = "Shmarray::Channel", free_immediately, size, mark)]
struct ChannelObject {
    /// `None` after it was closed.
    channel: RefCell<Option<Arc<Channel>>>,
    /// The array of each slot, once it was needed, if all messages have one shape. It does not keep
    /// the slot.
    arrays: RefCell<Vec<Option<Arc<Array>>>>,
    /// For the next block: to make an object takes longer, and the collector's time.
    spare: Cell<Option<Opaque<Obj<BlockObject>>>>,
    /// Whether blocks get arrays of Numo's.
    of_numo: bool,
    /// How the stream ended, when its end was seen.
    sender_died: Cell<bool>,
}

/// The slot that a block has: the stack of the block's caller has no part of it. It is used
/// for one block after the other.
#[derive(Default, TypedData)]
#[magnus(class = "Shmarray::Channel::Block", free_immediately, size)]
struct BlockObject(Cell<Option<Arc<SlotUse>>>);

/// A received message.
#[derive(TypedData)]
#[magnus(class = "Shmarray::Channel::Delivery", free_immediately, size, mark)]
struct DeliveryObject {
    /// The slot that it lies in, if it lies in one. `None` after the block.
    slot: Cell<Option<Arc<SlotUse>>>,
    /// The array that the block has. `None` after it.
    given: Cell<Option<Opaque<Value>>>,
    is_kept: Cell<bool>,
    of_numo: bool,
    sequence: u64,
    time_ns: u64,
    missed: u64,
    meta: Vec<u8>,
}

impl DataTypeFunctions for ChannelObject {
    fn mark(&self, marker: &Marker) {
        if let Some(spare) = self.spare.get() {
            marker.mark(spare);
        }
    }
}
impl DataTypeFunctions for BlockObject {}
impl DataTypeFunctions for DeliveryObject {
    fn mark(&self, marker: &Marker) {
        if let Some(given) = self.given.get() {
            marker.mark(given);
        }
    }
}

// What a block gets of a message.
const ARRAY: u8 = 0;
const ARRAY_AND_MESSAGE: u8 = 1;
const COPY: u8 = 2;

/// Defines the classes.
pub(crate) fn define(ruby: &Ruby, shmarray: RModule) -> Result<(), Error> {
    let error = named_class(ruby, "Shmarray::Error")?;
    shmarray.define_error("Full", error)?;
    let channel = shmarray.define_class("Channel", ruby.class_object())?;
    channel.undef_default_alloc_func();
    channel.define_singleton_method("made", method!(made, 4))?;
    channel.define_singleton_method("opened", method!(opened, 4))?;
    channel.const_set("OF_NUMO", false)?;
    channel.const_set("NO_SLOT", Loaned::TimedOut.to_string())?;
    channel.const_set("NO_MESSAGE", Delivered::TimedOut.to_string())?;
    channel.const_set("NO_NEWER", WaitOutcome::TimedOut.to_string())?;
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
    channel.define_private_method("handed_over", method!(ChannelObject::handed_over, 0))?;
    channel.define_private_method("ready_within", method!(ChannelObject::ready_within, 1))?;
    channel.define_private_method("free_within", method!(ChannelObject::free_within, 1))?;
    channel.define_private_method("newer_within", method!(ChannelObject::newer_within, 2))?;
    channel.define_private_method("who_has_slots", method!(ChannelObject::who_has_slots, 0))?;
    channel.define_private_method("lend_within", method!(ChannelObject::lend_within, 3))?;
    channel.define_private_method("send_within", method!(ChannelObject::send_within, 3))?;
    channel.define_private_method("receive_within", method!(ChannelObject::receive_within, 2))?;
    channel.define_private_method("receive_now", method!(ChannelObject::receive_now, 2))?;
    channel.const_set("ARRAY", ARRAY)?;
    channel.const_set("ARRAY_AND_MESSAGE", ARRAY_AND_MESSAGE)?;
    channel.const_set("COPY", COPY)?;
    let block = channel.define_class("Block", ruby.class_object())?;
    block.undef_default_alloc_func();
    let delivery = channel.define_class("Delivery", ruby.class_object())?;
    delivery.undef_default_alloc_func();
    delivery.define_method("sequence", method!(DeliveryObject::sequence, 0))?;
    delivery.define_method("time_ns", method!(DeliveryObject::time_ns, 0))?;
    delivery.define_method("age", method!(DeliveryObject::age, 0))?;
    delivery.define_method("missed", method!(DeliveryObject::missed, 0))?;
    delivery.define_method("meta", method!(DeliveryObject::meta, 0))?;
    delivery.define_method("keep", method!(DeliveryObject::keep, 0))?;
    delivery.define_method("copy", method!(DeliveryObject::copy, 0))?;
    look_up_class::<ChannelObject>(ruby)?;
    look_up_class::<BlockObject>(ruby)?;
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
    ChannelObject::wrap(ruby, class, made.or_raise(ruby)?)
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
    history: u32,
    seconds: Option<f64>,
) -> Result<Option<Value>, Error> {
    let receives = match history {
        0 => Receives::from(receives),
        history => Receives::WithHistory(history),
    };
    let text = arguments::handle_or_name(ruby, handle_or_name)?;
    let channel = match seconds {
        None => Some(Channel::open(&text, receives).or_raise(ruby)?),
        Some(seconds) => {
            waits(ruby, seconds, |step| Channel::open_within(&text, receives, Some(step)))?
                .flatten()
        }
    };
    channel.map(|channel| ChannelObject::wrap(ruby, class, channel)).transpose()
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
    fn wrap(ruby: &Ruby, class: RClass, channel: Channel) -> Result<Value, Error> {
        let of_numo = class.const_get("OF_NUMO")?;
        let slots = if channel.varies() || channel.has_handles() { 0 } else { channel.slots() };
        let object = Self {
            channel: RefCell::new(Some(Arc::new(channel))),
            arrays: RefCell::new(vec![None; slots as usize]),
            spare: Cell::new(None),
            of_numo,
            sender_died: Cell::new(false),
        };
        Ok(ruby.obj_wrap_as(object, class).as_value())
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
            self.arrays.take(); // and with them the mapping
        }
    }

    /// Returns the array of a slot, which does not keep it.
    fn array_in(&self, slot: u32, array: &Array) -> Arc<Array> {
        let mut arrays = self.arrays.borrow_mut();
        match arrays.get_mut(slot as usize) {
            Some(made) => Arc::clone(made.get_or_insert_with(|| Arc::new(array.without_slot()))),
            None => Arc::new(array.without_slot()),
        }
    }

    /// Returns an object that has what a block has.
    fn block_with(ruby: &Ruby, this: &Self, slot: Arc<SlotUse>) -> Obj<BlockObject> {
        let spare = this.spare.take().map(|spare| ruby.get_inner(spare));
        let block = spare.unwrap_or_else(|| ruby.obj_wrap(BlockObject::default()));
        block.0.set(Some(slot));
        block
    }

    /// Takes what a block had. It calls no Ruby: a jump out of the block may be under way.
    fn end_block(&self, block: Obj<BlockObject>) -> Option<Arc<SlotUse>> {
        let slot = block.0.take();
        self.spare.set(Some(block.into()));
        slot
    }

    fn name(ruby: &Ruby, this: &Self) -> Result<String, Error> {
        Ok(Self::open(ruby, this)?.name().to_owned())
    }

    fn handle(ruby: &Ruby, this: &Self) -> Result<String, Error> {
        Ok(Self::open(ruby, this)?.handle())
    }

    /// Returns the handle of an end that is handed over, and its fd, which is the caller's.
    fn handed_over(ruby: &Ruby, this: &Self) -> Result<(String, c_int), Error> {
        let handed_over = Self::open(ruby, this)?.hand_over().or_raise(ruby)?;
        Ok((handed_over.handle().to_owned(), handed_over.into_fd().into_raw_fd()))
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

    /// Does what [`waits`] does. Nothing of this is left to be dropped when a block runs.
    fn waits<T: Send>(
        ruby: &Ruby,
        this: &Self,
        seconds: f64,
        attempt: impl FnOnce(&Channel, Duration) -> shmarray::Result<T> + Send,
    ) -> Result<Option<T>, Error> {
        let channel = Self::open(ruby, this)?;
        let done = waits(ruby, seconds, |step| attempt(&channel, step));
        // Another thread may have closed it meanwhile.
        done.map_err(|error| if this.is_closed() { closed(ruby, "channel") } else { error })
    }

    /// Returns whether a receive would not wait, after so many seconds.
    fn ready_within(ruby: &Ruby, this: &Self, seconds: f64) -> Result<bool, Error> {
        let ready =
            Self::waits(ruby, this, seconds, |channel, step| channel.wait_until_ready(Some(step)));
        Ok(ready?.unwrap_or(false))
    }

    /// Returns whether a loan would not wait, after so many seconds.
    fn free_within(ruby: &Ruby, this: &Self, seconds: f64) -> Result<bool, Error> {
        let free =
            Self::waits(ruby, this, seconds, |channel, step| channel.wait_until_free(Some(step)));
        Ok(free?.unwrap_or(false))
    }

    /// Returns true if the latest value is newer than the one with a number, or than none; nil if
    /// none came in so many seconds; and a text if the stream has ended.
    fn newer_within(
        ruby: &Ruby,
        this: &Self,
        sequence: Option<u64>,
        seconds: f64,
    ) -> Result<Value, Error> {
        let awaited = Self::waits(ruby, this, seconds, |channel, step| {
            channel.wait_newer(sequence, Some(step))
        });
        match awaited? {
            Some(WaitOutcome::Newer) => Ok(ruby.qtrue().as_value()),
            Some(WaitOutcome::TimedOut) | None => Ok(ruby.qnil().as_value()),
            Some(ended @ WaitOutcome::Ended { died, .. }) => {
                this.sender_died.set(died);
                Ok(ruby.str_new(&ended.to_string()).as_value())
            }
            Some(_) => Err(shmarray::Error::UNKNOWN_OUTCOME).or_raise(ruby),
        }
    }

    /// Returns who has the slots, or nil if none is taken or nobody knows.
    fn who_has_slots(ruby: &Ruby, this: &Self) -> Result<Option<String>, Error> {
        let stats = ChannelStats::read(&Self::open(ruby, this)?.handle());
        Ok(stats.ok().map(|stats| stats.who_has_slots()).filter(|who| !who.is_empty()))
    }

    /// Lends a slot to the block, and publishes it afterwards. Returns the number of the message,
    /// or nil if no slot was free in so many seconds.
    fn lend_within(
        ruby: &Ruby,
        this: &Self,
        shape: Option<Value>,
        seconds: f64,
        meta: RString,
    ) -> Result<Option<u64>, Error> {
        let Some(loan) = Self::lend(ruby, this, shape, seconds)? else { return Ok(None) };
        let array = this.array_in(loan.slot(), loan.array());
        let slot = SlotUse::begin(Slot::Loan(loan));
        let block = Self::block_with(ruby, this, Arc::clone(&slot));
        let made = object_of(ruby, array, Part::Within(slot), this.of_numo);
        let filled = made.and_then(|array| {
            let filled = ruby.yield_value::<_, Value>(array);
            withdraw(array, this.of_numo);
            filled
        });
        let slot = this.end_block(block);
        match filled {
            Ok(_) => {
                let loan =
                    slot.and_then(|slot| slot.publish()).ok_or_else(|| closed(ruby, "loan"))?;
                loan.publish(&bytes_of(meta)).or_raise(ruby).map(Some)
            }
            Err(error) => {
                slot.iter().for_each(|slot| slot.end());
                Err(error)
            }
        }
    }

    fn lend(
        ruby: &Ruby,
        this: &Self,
        shape: Option<Value>,
        seconds: f64,
    ) -> Result<Option<Loan>, Error> {
        let shape = shape.map(|shape| arguments::shape(ruby, shape)).transpose()?;
        let loaned = Self::waits(ruby, this, seconds, |channel, step| match &shape {
            Some(shape) => channel.loan_shape(shape, Some(step)),
            None => channel.loan(Some(step)),
        })?;
        match loaned {
            Some(Loaned::Loan(loan)) => Ok(Some(loan)),
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
        let array = match array_of(ruby, array) {
            Some(found) => found?,
            None if numo_shared::is_numo(ruby, array) => numo_shared::shared_copy(ruby, array)?,
            None => {
                let text = format!("{} is not an array", array.inspect());
                return Err(type_error(ruby, text));
            }
        };
        let meta = bytes_of(meta);
        let posted = Self::waits(ruby, this, seconds, |channel, step| {
            channel.send_array(&array, &meta, Some(step))
        });
        match posted? {
            Some(Posted::Posted(_)) => Ok(true),
            Some(Posted::TimedOut) | None => Ok(false),
            Some(ref outcome @ Posted::Full) => Err(full(ruby, outcome)?),
            Some(_) => Err(shmarray::Error::UNKNOWN_OUTCOME).or_raise(ruby),
        }
    }

    /// Receives a message for the block. Returns its sequence number; nil if no message came in so
    /// many seconds; and a text if the stream has ended.
    fn receive_within(ruby: &Ruby, this: &Self, seconds: f64, form: u8) -> Result<Value, Error> {
        let received =
            Self::waits(ruby, this, seconds, |channel, step| channel.receive(Some(step)));
        match received? {
            Some(Delivered::Message(delivery)) => {
                let sequence = delivery.sequence();
                Self::hand_over(ruby, this, delivery, form)?;
                Ok(ruby.integer_from_u64(sequence).as_value())
            }
            Some(Delivered::TimedOut) | None => Ok(ruby.qnil().as_value()),
            Some(ref ended @ Delivered::Ended { died, .. }) => {
                this.sender_died.set(died);
                Ok(ruby.str_new(&ended.to_string()).as_value())
            }
            Some(_) => Err(shmarray::Error::UNKNOWN_OUTCOME).or_raise(ruby),
        }
    }

    /// Does the same with a message that is there. Returns the block's result, or `nothing` if
    /// there is no message.
    fn receive_now(ruby: &Ruby, this: &Self, form: u8, nothing: Value) -> Result<Value, Error> {
        match Self::waits(ruby, this, 0.0, |channel, step| channel.receive(Some(step)))? {
            Some(Delivered::Message(delivery)) => Self::hand_over(ruby, this, delivery, form),
            _ => Ok(nothing),
        }
    }

    /// Yields a message. Then the array's use of its slot ends, unless it is kept.
    fn hand_over(ruby: &Ruby, this: &Self, delivery: Delivery, form: u8) -> Result<Value, Error> {
        match (form, delivery.slot()) {
            (ARRAY, Some(number)) => Self::yield_slot(ruby, this, delivery, number),
            _ => DeliveryObject::hand_over(ruby, this, delivery, form),
        }
    }

    /// Yields the array in a slot alone.
    fn yield_slot(
        ruby: &Ruby,
        this: &Self,
        delivery: Delivery,
        number: u32,
    ) -> Result<Value, Error> {
        let array = this.array_in(number, delivery.array());
        let slot = SlotUse::begin(Slot::Delivery(delivery));
        let block = Self::block_with(ruby, this, Arc::clone(&slot));
        let array = object_of(ruby, array, Part::Within(slot), this.of_numo);
        let done = array.and_then(|array| {
            let done = ruby.yield_value(array);
            withdraw(array, this.of_numo);
            done
        });
        this.end_block(block).iter().for_each(|slot| slot.end());
        done
    }
}

/// Tries, and then waits without Ruby's lock. Returns `None` if something interrupts it: Ruby's
/// handlers run, and then the caller waits again.
fn waits<T: Send>(
    ruby: &Ruby,
    seconds: f64,
    attempt: impl FnOnce(Duration) -> shmarray::Result<T> + Send,
) -> Result<Option<T>, Error> {
    let done = match duration(seconds) {
        Duration::ZERO => Some(attempt(Duration::ZERO)),
        step => waiting(|| attempt(step)),
    };
    done.map_or(Ok(None), unless_interrupted).or_raise(ruby)
}

/// Makes the object of an array, as a block gets it.
fn object_of(ruby: &Ruby, array: Arc<Array>, part: Part, of_numo: bool) -> Result<Value, Error> {
    if of_numo {
        numo_array::make_part(ruby, numo(ruby)?, Array::clone(&array), part)
    } else {
        Ok(ArrayObject::having(ruby, array, part))
    }
}

/// Makes the array that a block had unusable. It calls no Ruby: a jump out of the block may be
/// under way.
fn withdraw(array: Value, of_numo: bool) {
    if of_numo {
        numo_array::withdraw(array);
    } else if !array.is_frozen()
        && let Ok(array) = <&ArrayObject>::try_convert(array)
    {
        array.let_go(); // and in a slot it ends with the use of that, like its views
    }
}

fn full(ruby: &Ruby, outcome: &impl Display) -> Result<Error, Error> {
    Ok(Error::new(named_class(ruby, "Shmarray::Full")?, outcome.to_string()))
}

fn bytes_of(text: RString) -> Vec<u8> {
    // SAFETY: no Ruby code runs that could change the String while the slice is borrowed.
    unsafe { text.as_slice() }.to_vec()
}

impl DeliveryObject {
    /// Yields what the block gets of a message.
    fn hand_over(
        ruby: &Ruby,
        channel: &ChannelObject,
        delivery: Delivery,
        form: u8,
    ) -> Result<Value, Error> {
        let (message, array, part) = Self::begin(ruby, channel, delivery);
        let array = object_of(ruby, array, part, channel.of_numo);
        let array = array.inspect(|array| message.given.set(Some((*array).into())));
        if form == COPY {
            let copy = array.and_then(|array| array.funcall::<_, _, Value>("dup", ()));
            message.end(ruby);
            copy.and_then(|copy| ruby.yield_value(copy))
        } else {
            let done = array.and_then(|array| match form {
                ARRAY => ruby.yield_value(array),
                _ => ruby.yield_values((array, message)),
            });
            message.end(ruby);
            done
        }
    }

    /// Makes the object of a message. Returns also the array of the message.
    fn begin(
        ruby: &Ruby,
        channel: &ChannelObject,
        delivery: Delivery,
    ) -> (Obj<Self>, Arc<Array>, Part) {
        let message = Self {
            slot: Cell::new(None),
            given: Cell::new(None),
            is_kept: Cell::new(false),
            of_numo: channel.of_numo,
            sequence: delivery.sequence(),
            time_ns: delivery.time_ns(),
            missed: delivery.missed(),
            meta: delivery.meta().to_vec(),
        };
        let Some(number) = delivery.slot() else {
            let array = Arc::new(delivery.array().clone());
            return (ruby.obj_wrap(message), array, Part::None);
        };
        let array = channel.array_in(number, delivery.array());
        let slot = SlotUse::begin(Slot::Delivery(delivery));
        message.slot.set(Some(Arc::clone(&slot)));
        (ruby.obj_wrap(message), array, Part::Within(slot))
    }

    /// Ends the block's part. It calls no Ruby: a jump out of the block may be under way.
    fn end(&self, ruby: &Ruby) {
        let slot = self.slot.take();
        let given = self.given.take().map(|given| ruby.get_inner(given));
        if self.is_kept.get() {
            return; // the array has the slot
        }
        given.into_iter().for_each(|given| withdraw(given, self.of_numo));
        slot.iter().for_each(|slot| slot.end());
    }

    fn given(&self, ruby: &Ruby) -> Result<Value, Error> {
        let given = self.given.get().map(|given| ruby.get_inner(given));
        let over = || {
            let text = "the message's slot was given back";
            Error::new(ruby.exception_io_error(), text)
        };
        given.ok_or_else(over)
    }

    /// Lets the array keep its slot.
    fn keep(ruby: &Ruby, this: &Self) -> Result<Value, Error> {
        let given = this.given(ruby)?;
        this.is_kept.set(true);
        Ok(given)
    }

    fn copy(ruby: &Ruby, this: &Self) -> Result<Value, Error> {
        this.given(ruby)?.funcall("dup", ())
    }

    fn sequence(&self) -> u64 {
        self.sequence
    }

    fn time_ns(&self) -> u64 {
        self.time_ns
    }

    /// Returns seconds.
    fn age(&self) -> f64 {
        let published = UNIX_EPOCH + Duration::from_nanos(self.time_ns);
        let age = SystemTime::now().duration_since(published);
        age.unwrap_or_default().as_secs_f64() // none, if the clock was set back
    }

    fn missed(&self) -> u64 {
        self.missed
    }

    fn meta(ruby: &Ruby, this: &Self) -> RString {
        ruby.str_from_slice(&this.meta)
    }
}
