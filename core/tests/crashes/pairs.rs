//! The table of pairs: two operations at once.

use shmarray::{Access, Array};

use crate::actions::*;
use crate::operations::{Operation, PLAIN, POOL_BYTES, Traced};
use crate::stage::Prop::{Contested, Given, GivenCell, Leftovers, Named, Sent};
use crate::stage::{NEW, NEW_FILE, Stage, new, options};

/// Two operations at once, on the same array where that makes sense. The first process is killed at
/// each of its steps, while the second is stopped at each of its own.
pub(crate) static PAIRS: &[[Operation; 2]] = &[
    [on_contested("attach", attach_contested), on_contested("close", close_contested)],
    [on_contested("close", close_contested), on_contested("attach", attach_contested)],
    [on_contested("close", close_contested), on_contested("close", close_contested)],
    [on_contested("close", close_contested), on_contested("sweep", |_| sweep())],
    [on_contested("sweep", |_| sweep()), on_contested("close", close_contested)],
    [on_contested("fork", fork_contested), on_contested("close", close_contested)],
    [on_named("attach by name", attach_name), on_named("unlink", |_| unlink("named"))],
    [on_named("unlink", |_| unlink("named")), on_named("attach by name", attach_name)],
    [on_named("unlink", |_| unlink("named")), on_named("unlink", |_| unlink("named"))],
    [on_named("create", create_named), on_named("unlink", |_| unlink("named"))],
    [on_contested("unlink", |_| unlink("contested")), on_contested("close", close_contested)],
    [on_contested("close", close_contested), on_contested("create", create_contested)],
    [on_contested("create", create_contested), on_contested("close", close_contested)],
    [on_contested("create", create_contested), on_contested("create", create_contested)],
    [on_contested("end of a process", end_contested), on_contested("attach", attach_contested)],
    [on_leftovers("sweep", |_| sweep()), on_leftovers("sweep", |_| sweep())],
    [on_leftovers("sweep", |_| sweep()), on_leftovers("attach what the dead left", attach_left)],
    [on_leftovers("attach what the dead left", attach_left), on_leftovers("sweep", |_| sweep())],
    [
        on_leftovers("create over what the dead left", create_leftover),
        on_leftovers("sweep", |_| sweep()),
    ],
    [
        on_leftovers("sweep", |_| sweep()),
        on_leftovers("create over what the dead left", create_leftover),
    ],
    [
        on_leftovers("unlink what the dead left", |_| unlink("leftover")),
        on_leftovers("sweep", |_| sweep()),
    ],
    [
        on_leftovers("sweep", |_| sweep()),
        on_leftovers("unlink what the dead left", |_| unlink("leftover")),
    ],
    [
        on_given("send", |stage| send(stage, &["given", "given cell"])),
        on_given("sweep", |_| sweep()),
    ],
    [
        on_given("sweep", |_| sweep()),
        on_given("send", |stage| send(stage, &["given", "given cell"])),
    ],
    [on_sent("receive", receive), on_sent("receive", receive)],
    [on_sent("receive", receive), on_sent("sweep", |_| sweep())],
    [on_sent("sweep", |_| sweep()), on_sent("receive", receive)],
    [on_cell("close a cell", close_cell), on_cell("attach a cell", attach_cell)],
    [on_cell("close a cell", close_cell), on_cell("close a cell", close_cell)],
    [on_cell("close a cell", close_cell), on_cell("sweep of cells", |_| sweep())],
    [on_cell("attach a cell", attach_cell), on_cell("close a cell", close_cell)],
    [on_cell("sweep of cells", |_| sweep()), on_cell("close a cell", close_cell)],
    [on_cell("fork with a cell", fork_cell), on_cell("close a cell", close_cell)],
    [on_cell("end with a cell", end_cell), on_cell("attach a cell", attach_cell)],
    [
        on_cell("send a cell", |stage| send(stage, &["given cell"])),
        on_cell("close a cell", close_cell),
    ],
    [
        on_cell("discard a cell", |stage| discard(stage, "given cell")),
        on_cell("close a cell", close_cell),
    ],
    [
        on_leftovers("create in a cell that was used", |_| create_in_cell(1, 2)),
        on_leftovers("sweep", |_| sweep()),
    ],
    [
        on_leftovers("sweep", |_| sweep()),
        on_leftovers("create in a cell that was used", |_| create_in_cell(1, 2)),
    ],
    [
        on_leftovers("close more cells than keep their memory", |_| close_cells(18)),
        on_leftovers("sweep", |_| sweep()),
    ],
    [
        on_leftovers("sweep", |_| sweep()),
        on_leftovers("close more cells than keep their memory", |_| close_cells(18)),
    ],
    [on_leftovers("create where something was", create_kept), on_leftovers("sweep", |_| sweep())],
    [on_leftovers("sweep", |_| sweep()), on_leftovers("create where something was", create_kept)],
    [on_leftovers("close what is kept", close_kept), on_leftovers("sweep", |_| sweep())],
    [on_leftovers("sweep", |_| sweep()), on_leftovers("close what is kept", close_kept)],
    [
        on_leftovers("end of a process with what is kept", end_kept),
        on_leftovers("sweep", |_| sweep()),
    ],
    [
        on_leftovers("sweep", |_| sweep()),
        on_leftovers("end of a process with what is kept", end_kept),
    ],
];

const fn on_contested(name: &'static str, prepare: fn(&Stage) -> Traced) -> Operation {
    Operation { name, props: &[Contested], prepare, may_go: &["contested"], least: 4, ..PLAIN }
}

const fn on_named(name: &'static str, prepare: fn(&Stage) -> Traced) -> Operation {
    Operation { name, props: &[Named], prepare, may_go: &["named"], least: 4, ..PLAIN }
}

const fn on_leftovers(name: &'static str, prepare: fn(&Stage) -> Traced) -> Operation {
    Operation { name, props: &[Leftovers], prepare, least: 4, ..PLAIN }
}

const fn on_given(name: &'static str, prepare: fn(&Stage) -> Traced) -> Operation {
    Operation { name, props: &[Given, GivenCell, Leftovers], prepare, least: 4, ..PLAIN }
}

const fn on_sent(name: &'static str, prepare: fn(&Stage) -> Traced) -> Operation {
    Operation { name, props: &[Given, GivenCell, Sent], prepare, least: 4, ..PLAIN }
}

const fn on_cell(name: &'static str, prepare: fn(&Stage) -> Traced) -> Operation {
    Operation { name, props: &[GivenCell], prepare, least: 4, ..PLAIN }
}

fn attach_cell(stage: &Stage) -> Traced {
    attach_if_there(stage, "given cell")
}

fn close_cell(stage: &Stage) -> Traced {
    close(&[stage.handle("given cell")])
}

fn fork_cell(stage: &Stage) -> Traced {
    fork(&[stage.handle("given cell")])
}

fn end_cell(stage: &Stage) -> Traced {
    end(&[stage.handle("given cell")])
}

fn attach_contested(stage: &Stage) -> Traced {
    attach_if_there(stage, "contested")
}

fn attach_left(stage: &Stage) -> Traced {
    attach_if_there(stage, "left")
}

fn attach_name(_: &Stage) -> Traced {
    Box::new(|| if_there(Array::attach("named", Access::ReadOnly)))
}

fn create_named(_: &Stage) -> Traced {
    Box::new(|| if_free(new(NEW, &options("named"))))
}

fn close_contested(stage: &Stage) -> Traced {
    close(&[stage.handle("contested")])
}

fn fork_contested(stage: &Stage) -> Traced {
    fork(&[stage.handle("contested")])
}

fn end_contested(stage: &Stage) -> Traced {
    end(&[stage.handle("contested")])
}

fn create_contested(_: &Stage) -> Traced {
    Box::new(|| if_free(new(NEW, &options("contested"))))
}

fn create_leftover(_: &Stage) -> Traced {
    Box::new(|| if_free(new(NEW, &options("leftover"))))
}

fn create_kept(_: &Stage) -> Traced {
    with_pool(POOL_BYTES, || create(NEW_FILE, options("")))
}

fn close_kept(_: &Stage) -> Traced {
    with_pool(POOL_BYTES, || close_new(NEW_FILE))
}

fn end_kept(stage: &Stage) -> Traced {
    with_pool(POOL_BYTES, || end(&[stage.handle("kept")]))
}
