"""A private array goes to another process: steady, after other messages, and cold, as the first."""

import os

import peers
from harness import Sender, limit, senders

from rows.shared import SIZES, prepared

ROW = "private"
BIG = 1 << 24
QUICK = (peers.OURS, "ray", "pickle5", "pipe")
CHECKS = {"": "ends", ", every byte read": "every"}


def measure(bench):
    steady(bench)
    cold(bench)


def steady(bench):
    names = [name for name in peers.present() if not bench.quick or name in QUICK]
    with senders(bench, ROW, names) as running:
        for size_name, size in SIZES.items():
            for words, check in checks(bench):
                contenders = {
                    name: contender(bench, sender, size, check) for name, sender in running.items()
                }
                rounds = bench.pick(7, 2 if size < BIG else 1)
                bench.measure(
                    ROW, f"{size_name} steady{words}", contenders | limits(size, check), rounds
                )


def checks(bench):
    return [
        (words, check) for words, check in CHECKS.items() if not (bench.quick and check == "every")
    ]


def limits(size, check):
    """The bare copy by one core and by all, in the same rounds."""
    if size < BIG or check != "ends":
        return {}
    threads = len(os.sched_getaffinity(0))
    return {
        "memcpy, one thread": limit("copy", size, 1),
        f"memcpy, {threads} threads": limit("copy", size, threads),
    }


def order(size, check):
    """The order to a sender, which may copy much with all cores; a receiver has one core."""
    return {
        "do": "prepare",
        "kind": "private",
        "size_bytes": size,
        "check": check,
        "all_cores": size >= BIG,
    }


def contender(bench, sender, size, check):
    messages = bench.pick(20, 5) if size < BIG else 1
    warm = {"warm": 1} if bench.quick else {}
    return prepared(sender, order(size, check) | warm, {"do": "round", "messages": messages})


def cold(bench):
    """Starts new processes for each round, so that nothing from before can be used again."""
    for size_name, size in SIZES.items():
        if bench.quick and size < BIG:
            continue
        for words, check in checks(bench):
            contenders = {
                name: first_message(name, size, check) for name in chosen(bench, size, check)
            }
            bench.measure(
                ROW, f"{size_name} cold{words}", contenders, bench.pick(5 if size > BIG else 3, 1)
            )


def chosen(bench, size, check):
    """The peers of a run; a quick run has only those of targets, since Ray starts slowly (6 s)."""
    if bench.quick:
        return [peers.OURS, "pickle5"]
    return [name for name in peers.present() if name != "ray" or (size > BIG and check == "ends")]


def first_message(name, size, check):
    """The first message after one of 80 bytes, so that code is loaded and memory is not."""

    def run():
        sender = Sender(name)
        try:
            sender.ask(**(order(80, check) | {"warm": 0}))
            sender.ask(do="round", messages=1)
            sender.ask(**(order(size, check) | {"warm": 0}))
            return sender.ask(do="round", messages=1)["seconds"]
        finally:
            sender.close()

    return run
