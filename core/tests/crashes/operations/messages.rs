//! Operations that send, receive and discard.

use super::{Operation, PLAIN};
use crate::actions::{
    discard, end_with_messages, receive, receive_in_vain, send, send_by_link, send_to_oneself,
};
use crate::stage::Prop::{Forgotten, Given, GivenCell, Sent};

pub(super) static ROWS: &[Operation] = &[
    Operation {
        name: "send",
        props: &[Given, GivenCell],
        prepare: |stage| send(stage, &["given", "given cell"]),
        ..PLAIN
    },
    Operation {
        name: "send what nobody receives",
        props: &[Given, GivenCell, Forgotten],
        prepare: |stage| send(stage, &["given", "given cell"]),
        ..PLAIN
    },
    Operation { name: "send by a link", props: &[GivenCell], prepare: send_by_link, ..PLAIN },
    Operation {
        name: "send by a link what nobody receives",
        props: &[GivenCell, Forgotten],
        prepare: send_by_link,
        ..PLAIN
    },
    Operation { name: "receive", props: &[Given, GivenCell, Sent], prepare: receive, ..PLAIN },
    Operation {
        name: "receive, first use",
        warm: false,
        props: &[Given, GivenCell, Sent],
        prepare: receive,
        ..PLAIN
    },
    Operation {
        name: "receive in vain",
        props: &[Given, GivenCell, Sent],
        prepare: receive_in_vain,
        ..PLAIN
    },
    Operation {
        name: "end of a process with what nobody received",
        props: &[Given, GivenCell],
        prepare: end_with_messages,
        least: 30,
        ..PLAIN
    },
    Operation {
        name: "discard",
        props: &[Given],
        prepare: |stage| discard(stage, "given"),
        ..PLAIN
    },
    Operation {
        name: "discard a cell",
        props: &[GivenCell],
        prepare: |stage| discard(stage, "given cell"),
        ..PLAIN
    },
    Operation {
        name: "send by an unknown way",
        props: &[Given],
        prepare: |stage| send_to_oneself(stage, "given"),
        ..PLAIN
    },
    Operation {
        name: "send a cell by an unknown way",
        props: &[GivenCell],
        prepare: |stage| send_to_oneself(stage, "given cell"),
        ..PLAIN
    },
];
