//! Operations whose process keeps slabs in a pool.

use super::{Operation, PLAIN, POOL_BYTES, Victim};
use crate::actions::{
    allocate, close_new, create, create_where_another_freed_all, create_where_it_was_decommitted,
    end, fork, fork_with_allocated, free_all, move_allocated, sweep, with_empty_pool, with_pool,
};
use crate::stage::Prop::{Forgotten, Given};
use crate::stage::{NEW, NEW_FILE, new, options};

pub(super) static ROWS: &[Operation] = &[
    Operation {
        name: "create what is kept",
        prepare: |_| with_empty_pool(POOL_BYTES, || create(NEW_FILE, options(""))),
        least: 20,
        ..PLAIN
    },
    Operation {
        name: "create in a cell of a file that is kept",
        prepare: |_| with_empty_pool(POOL_BYTES, || create(NEW, options(""))),
        least: 20,
        ..PLAIN
    },
    Operation {
        name: "create where something was",
        prepare: |_| with_pool(POOL_BYTES, || create(NEW_FILE, options(""))),
        ..PLAIN
    },
    Operation {
        name: "create where another freed what was",
        prepare: |_| with_pool(POOL_BYTES, create_where_another_freed_all),
        ..PLAIN
    },
    Operation {
        name: "create where memory was taken from the pool",
        prepare: |_| with_pool(POOL_BYTES, || create_where_it_was_decommitted(NEW_FILE)),
        ..PLAIN
    },
    Operation {
        name: "create what only fits when something else goes",
        prepare: |_| {
            with_empty_pool("130000", || {
                drop(new(90_000, &options("")).unwrap());
                create(NEW_FILE, options(""))
            })
        },
        least: 20,
        ..PLAIN
    },
    Operation {
        name: "allocate",
        prepare: |_| with_empty_pool(POOL_BYTES, allocate),
        least: 20,
        ..PLAIN
    },
    Operation {
        name: "free, and give back what is idle",
        prepare: |_| with_empty_pool(POOL_BYTES, free_all),
        least: 4,
        ..PLAIN
    },
    Operation {
        name: "move what was freed",
        prepare: |stage| with_empty_pool(POOL_BYTES, || move_allocated(stage, true, false)),
        ..PLAIN
    },
    Operation {
        name: "move what was freed, and nobody receives",
        props: &[Forgotten],
        prepare: |stage| with_empty_pool(POOL_BYTES, || move_allocated(stage, true, false)),
        ..PLAIN
    },
    Operation {
        name: "send a copy of what is in use",
        prepare: |stage| with_empty_pool(POOL_BYTES, || move_allocated(stage, false, false)),
        ..PLAIN
    },
    Operation {
        name: "move what is in use",
        prepare: |stage| with_empty_pool(POOL_BYTES, || move_allocated(stage, false, true)),
        ..PLAIN
    },
    Operation {
        name: "fork with what was allocated",
        prepare: |_| with_empty_pool(POOL_BYTES, fork_with_allocated),
        ..PLAIN
    },
    Operation {
        name: "fork with what was allocated, the child",
        victim: Victim::ItsChild,
        prepare: |_| with_empty_pool(POOL_BYTES, fork_with_allocated),
        ..PLAIN
    },
    Operation {
        name: "close what is kept",
        prepare: |_| with_pool(POOL_BYTES, || close_new(NEW_FILE)),
        least: 4,
        ..PLAIN
    },
    Operation {
        name: "sweep what is kept",
        prepare: |_| with_pool(POOL_BYTES, sweep),
        least: 30,
        ..PLAIN
    },
    Operation {
        name: "fork with what is kept",
        props: &[Given],
        prepare: |stage| {
            with_pool(POOL_BYTES, || fork(&["kept", "given"].map(|what| stage.handle(what))))
        },
        least: 15,
        ..PLAIN
    },
    Operation {
        name: "end of a process with what is kept",
        props: &[Given],
        prepare: |stage| {
            with_pool(POOL_BYTES, || end(&["kept", "given"].map(|what| stage.handle(what))))
        },
        least: 30,
        ..PLAIN
    },
];
