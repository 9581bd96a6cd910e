//! `Shmarray.sweep`, `.segments`, `.unlink`, `.discard` and `.copied_bytes`: thin calls of core.

use magnus::{Error, Module, Object, RArray, RHash, RModule, Ruby, Value, function};
use shmarray::SegmentInfo;

use crate::arguments::handle_or_name;
use crate::collector::reuse_dead;
use crate::error::{OrRaise, make_room};

/// Defines them on `Shmarray`.
pub(crate) fn define(shmarray: RModule) -> Result<(), Error> {
    shmarray.const_set("VERSION", shmarray::VERSION)?;
    shmarray.define_singleton_method("sweep", function!(sweep, 0))?;
    shmarray.define_singleton_method("sweep_dead", function!(sweep_dead, 0))?;
    shmarray.define_singleton_method("make_room", function!(make_room, 0))?;
    shmarray.define_singleton_method("reuse_dead", function!(reuse_dead, 0))?;
    shmarray.define_singleton_method("room?", function!(shmarray::has_room, 1))?;
    shmarray.define_singleton_method("segments", function!(segments, 0))?;
    shmarray.define_singleton_method("unlink", function!(unlink, 1))?;
    shmarray.define_singleton_method("discard", function!(discard, 1))?;
    shmarray.define_singleton_method("copied_bytes", function!(shmarray::copied_bytes, 0))
}

/// Gives back what dead processes held and the unused memory of pools. Returns how much it was.
pub(crate) fn sweep(ruby: &Ruby) -> Result<RHash, Error> {
    let swept = shmarray::sweep().or_raise(ruby)?;
    let hash = ruby.hash_new();
    hash.aset(ruby.to_symbol("segments"), swept.segments)?;
    hash.aset(ruby.to_symbol("bytes"), swept.bytes)?;
    Ok(hash)
}

/// Gives back what dead processes held, if any has died. It raises nothing: the next use of shared
/// memory reports what is wrong.
fn sweep_dead() {
    let _ = shmarray::sweep_dead();
}

/// Lists what exists: one Hash for each array, and one for the rest of each slab.
pub(crate) fn segments(ruby: &Ruby) -> Result<RArray, Error> {
    let list = ruby.ary_new();
    for info in shmarray::segments().or_raise(ruby)? {
        list.push(facts_of(ruby, info)?)?;
    }
    Ok(list)
}

fn facts_of(ruby: &Ruby, info: SegmentInfo) -> Result<RHash, Error> {
    let hash = ruby.hash_new();
    hash.aset(ruby.to_symbol("segment"), info.segment.to_string())?;
    hash.aset(ruby.to_symbol("name"), info.name)?;
    hash.aset(ruby.to_symbol("kind"), ruby.to_symbol(info.kind.as_str()))?;
    hash.aset(ruby.to_symbol("persists"), info.persists)?;
    hash.aset(ruby.to_symbol("segment_bytes"), info.segment_bytes)?;
    hash.aset(ruby.to_symbol("dtype"), info.dtype.text())?;
    hash.aset(ruby.to_symbol("shape"), info.shape)?;
    hash.aset(ruby.to_symbol("holders"), info.holders)?;
    hash.aset(ruby.to_symbol("tickets"), info.tickets)?;
    hash.aset(ruby.to_symbol("creator_pid"), info.creator_pid)?;
    hash.aset(ruby.to_symbol("created_ns"), info.created_ns)?;
    Ok(hash)
}

/// Removes a name.
pub(crate) fn unlink(ruby: &Ruby, name: Value) -> Result<(), Error> {
    shmarray::unlink(&handle_or_name(ruby, name)?).or_raise(ruby)
}

/// Gives back what an unwanted message holds.
fn discard(ruby: &Ruby, handle: Value) -> Result<(), Error> {
    shmarray::discard(&handle_or_name(ruby, handle)?).or_raise(ruby)
}
