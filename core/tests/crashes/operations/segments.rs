//! Operations on arrays that have a segment of their own, and on all arrays at once.

use shmarray::{Access, Error};

use super::{Operation, PLAIN, Victim};
use crate::actions::{
    attach, close, close_held_lock_only, create, end, fork, fork_and_create, sweep, unlink,
    without_unnamed_files,
};
use crate::stage::Prop::{Cell, Contested, Given, Lasting, Leftovers, Named, Shared};
use crate::stage::{Kept, NEW, NEW_FILE, new, options};

pub(super) static ROWS: &[Operation] = &[
    Operation {
        name: "create, first use",
        warm: false,
        prepare: |_| create(NEW_FILE, options("")),
        least: 40,
        ..PLAIN
    },
    Operation { name: "create", prepare: |_| create(NEW_FILE, options("")), least: 20, ..PLAIN },
    Operation {
        name: "create with a name, first use",
        warm: false,
        props: &[Leftovers],
        prepare: |_| create(NEW_FILE, options("new")),
        least: 100,
        ..PLAIN
    },
    Operation {
        name: "create with a name",
        prepare: |_| create(NEW_FILE, options("new")),
        least: 25,
        ..PLAIN
    },
    Operation {
        name: "create with a name that the dead have",
        props: &[Leftovers],
        prepare: |_| create(NEW_FILE, options("leftover")),
        least: 50,
        ..PLAIN
    },
    Operation {
        name: "create with a name that a survivor has",
        props: &[Named],
        prepare: |_| {
            Box::new(|| match new(NEW, &options("named")) {
                Err(Error::NameExists { .. }) => Kept::default(),
                other => panic!(
                    "a second array with that name: {other:?}",
                    other = other.map(|array| array.handle())
                ),
            })
        },
        least: 50,
        ..PLAIN
    },
    Operation {
        name: "create what persists",
        prepare: |_| create(NEW_FILE, options("new").persist(true)),
        may_last: &["new"],
        least: 25,
        ..PLAIN
    },
    Operation {
        name: "create what others may read",
        prepare: |_| create(NEW_FILE, options("new").mode(0o644)),
        least: 25,
        ..PLAIN
    },
    Operation {
        name: "attach, first use",
        warm: false,
        props: &[Leftovers],
        prepare: |stage| attach(stage.handle("kept"), Access::ReadWrite),
        least: 100,
        ..PLAIN
    },
    Operation {
        name: "attach",
        prepare: |stage| attach(stage.handle("kept"), Access::ReadWrite),
        ..PLAIN
    },
    Operation {
        name: "attach read-only",
        prepare: |stage| attach(stage.handle("kept"), Access::ReadOnly),
        ..PLAIN
    },
    Operation {
        name: "attach by name",
        props: &[Named],
        prepare: |_| attach("named".to_owned(), Access::ReadWrite),
        ..PLAIN
    },
    Operation {
        name: "attach by name, read-only, first use",
        warm: false,
        props: &[Named],
        prepare: |_| attach("named".to_owned(), Access::ReadOnly),
        least: 50,
        ..PLAIN
    },
    Operation {
        name: "attach what is held by lock",
        props: &[Shared],
        prepare: |stage| attach(stage.handle("shared"), Access::ReadOnly),
        ..PLAIN
    },
    Operation {
        name: "attach what the dead left",
        props: &[Leftovers],
        prepare: |stage| attach(stage.handle("left"), Access::ReadWrite),
        ..PLAIN
    },
    Operation {
        name: "close what a survivor holds",
        prepare: |stage| close(&[stage.handle("kept")]),
        least: 4,
        ..PLAIN
    },
    Operation {
        name: "close as the last",
        props: &[Given],
        prepare: |stage| close(&[stage.handle("given")]),
        least: 9,
        ..PLAIN
    },
    Operation {
        name: "close as the last, with a name",
        props: &[Contested],
        prepare: |stage| close(&[stage.handle("contested")]),
        least: 15,
        ..PLAIN
    },
    Operation {
        name: "close as the last that lives",
        props: &[Contested, Leftovers],
        prepare: |stage| close(&[stage.handle("contested")]),
        least: 20,
        ..PLAIN
    },
    Operation {
        name: "close what is held by lock, as the last",
        props: &[Contested],
        prepare: |_| close_held_lock_only(),
        ..PLAIN
    },
    Operation {
        name: "close what persists",
        props: &[Lasting],
        prepare: |_| close(&["lasting".to_owned()]),
        least: 3,
        ..PLAIN
    },
    Operation {
        name: "fork",
        props: &[Given, Named],
        prepare: |stage| fork(&["kept", "given", "named"].map(|what| stage.handle(what))),
        least: 15,
        ..PLAIN
    },
    Operation {
        name: "fork, the child",
        props: &[Given, Named],
        prepare: |stage| fork(&["kept", "given", "named"].map(|what| stage.handle(what))),
        victim: Victim::ItsChild,
        least: 4,
        ..PLAIN
    },
    Operation {
        name: "fork, the child, which creates and closes",
        props: &[Given, Cell],
        prepare: |stage| fork_and_create(&["given", "cell", "kept"].map(|what| stage.handle(what))),
        victim: Victim::ItsChild,
        least: 100,
        ..PLAIN
    },
    Operation {
        name: "sweep",
        props: &[Leftovers, Lasting, Named],
        prepare: |_| sweep(),
        least: 60,
        ..PLAIN
    },
    Operation {
        name: "sweep, first use",
        warm: false,
        props: &[Leftovers],
        prepare: |_| sweep(),
        least: 60,
        ..PLAIN
    },
    Operation {
        name: "unlink what is held",
        props: &[Named],
        prepare: |_| unlink("named"),
        may_go: &["named"],
        ..PLAIN
    },
    Operation {
        name: "unlink what persists, first use",
        warm: false,
        props: &[Lasting],
        prepare: |_| unlink("lasting"),
        may_go: &["lasting"],
        ..PLAIN
    },
    Operation {
        name: "unlink what the dead left",
        props: &[Leftovers],
        prepare: |_| unlink("leftover"),
        ..PLAIN
    },
    Operation {
        name: "end of a process",
        props: &[Contested, Given, Leftovers],
        prepare: |stage| end(&["kept", "contested", "given"].map(|what| stage.handle(what))),
        least: 30,
        ..PLAIN
    },
    Operation {
        name: "create where no file can be without a name",
        prepare: |_| without_unnamed_files(create(NEW_FILE, options("new"))),
        least: 25,
        ..PLAIN
    },
    Operation {
        name: "create what persists where no file can be without a name",
        prepare: |_| without_unnamed_files(create(NEW_FILE, options("new").persist(true))),
        may_last: &["new"],
        least: 25,
        ..PLAIN
    },
];
