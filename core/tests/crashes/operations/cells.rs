//! Operations on arrays that lie in a cell of a slab.

use shmarray::Access;

use super::{Operation, PLAIN, Victim};
use crate::actions::{
    attach, attach_again, close, close_cells, create, create_in_cell, create_where_another_freed,
    end, fork, freeze, own, without_unnamed_files,
};
use crate::stage::Prop::{Cell, GivenCell, Leftovers};
use crate::stage::{NEW, options};

pub(super) static ROWS: &[Operation] = &[
    Operation {
        name: "create in a cell, first use",
        warm: false,
        prepare: |_| create(NEW, options("")),
        least: 40,
        ..PLAIN
    },
    Operation {
        name: "create in a cell",
        prepare: |_| create(NEW, options("")),
        least: 30,
        ..PLAIN
    },
    Operation {
        name: "create in a cell beside others",
        prepare: |_| create_in_cell(2, 0),
        ..PLAIN
    },
    Operation {
        name: "create in a cell that was used",
        prepare: |_| create_in_cell(1, 2),
        ..PLAIN
    },
    Operation {
        name: "create in a cell without memory",
        prepare: |_| create_in_cell(1, 19),
        ..PLAIN
    },
    Operation {
        name: "create in a cell that another freed",
        prepare: |_| create_where_another_freed(),
        ..PLAIN
    },
    Operation {
        name: "create in a cell where no file can be without a name",
        prepare: |_| without_unnamed_files(create(NEW, options(""))),
        least: 25,
        ..PLAIN
    },
    Operation {
        name: "attach a cell by a mapping that is kept",
        props: &[Cell],
        prepare: |stage| attach_again(stage.handle("cell"), Access::ReadWrite),
        least: 2,
        ..PLAIN
    },
    Operation {
        name: "attach a cell to copy on write by a mapping that is kept",
        props: &[Cell],
        prepare: |stage| attach_again(stage.handle("cell"), Access::CopyOnWrite),
        least: 2,
        ..PLAIN
    },
    Operation {
        name: "attach a cell alone",
        props: &[Cell],
        prepare: |stage| attach(stage.handle("cell"), Access::Owned),
        ..PLAIN
    },
    Operation {
        name: "attach a cell alone by a mapping that is kept",
        props: &[Cell],
        prepare: |stage| attach_again(stage.handle("cell"), Access::Owned),
        least: 2,
        ..PLAIN
    },
    Operation {
        name: "own a cell that nobody else has",
        props: &[GivenCell],
        prepare: |stage| own(&stage.handle("given cell")),
        least: 1,
        ..PLAIN
    },
    Operation {
        name: "fork with an owned cell",
        props: &[GivenCell],
        prepare: |stage| freeze(&stage.handle("given cell")),
        ..PLAIN
    },
    Operation {
        name: "fork with an owned cell, the child",
        props: &[GivenCell],
        prepare: |stage| freeze(&stage.handle("given cell")),
        victim: Victim::ItsChild,
        least: 1,
        ..PLAIN
    },
    Operation {
        name: "attach a cell",
        props: &[Cell],
        prepare: |stage| attach(stage.handle("cell"), Access::ReadWrite),
        ..PLAIN
    },
    Operation {
        name: "attach a cell that the dead left, read-only, first use",
        props: &[Cell, Leftovers],
        warm: false,
        prepare: |stage| attach(stage.handle("cell"), Access::ReadOnly),
        ..PLAIN
    },
    Operation {
        name: "close a cell as the last",
        props: &[Cell, GivenCell],
        prepare: |stage| close(&[stage.handle("given cell")]),
        least: 4,
        ..PLAIN
    },
    Operation {
        name: "close the last cell of a file as the last",
        props: &[GivenCell],
        prepare: |stage| close(&[stage.handle("given cell")]),
        ..PLAIN
    },
    Operation {
        name: "close more cells than keep their memory",
        prepare: |_| close_cells(19),
        least: 100,
        ..PLAIN
    },
    Operation {
        name: "fork with cells",
        props: &[Cell, GivenCell],
        prepare: |stage| fork(&["cell", "given cell"].map(|what| stage.handle(what))),
        least: 15,
        ..PLAIN
    },
    Operation {
        name: "end of a process with cells",
        props: &[Cell, GivenCell, Leftovers],
        prepare: |stage| end(&["cell", "given cell", "left cell"].map(|what| stage.handle(what))),
        least: 20,
        ..PLAIN
    },
];
