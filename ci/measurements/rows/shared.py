"""An array that is shared already goes to another process and an answer comes back.

Beside it, in the same rounds, 200 bytes go through the same kinds of pipe without pickling. The
targets compare with these.
"""

import contextlib

import peers
from harness import Sender, limit, senders

ROW = "shared"
SIZES = {"64 KiB": 1 << 16, "4 MiB": 1 << 22, "400 MB": 400_000_000}
BARE_BYTES = 200
# The peers whose pipe is measured bare, and the name of that figure.
BARE = {"pipe": "200 bytes, Python's pipe", peers.OURS: "200 bytes, our pipe"}
BARE_IN_C = "200 bytes, C"


def measure(bench):
    slow = ("ray", "memmap") if bench.quick else ()
    names = [name for name in peers.present() if name not in slow]
    with senders(bench, ROW, names) as running, contextlib.ExitStack() as stack:
        bare = {
            who: stack.enter_context(contextlib.closing(Sender(name))) for name, who in BARE.items()
        }
        for case, size in SIZES.items():
            contenders = {
                name: arrays(bench, sender, name, size) for name, sender in running.items()
            }
            if bench.quick and size > 1 << 24:
                contenders.pop("pipe", None)  # its row is the private one's
            contenders |= {who: bare_bytes(bench, sender, size) for who, sender in bare.items()}
            contenders[BARE_IN_C] = limit("pipe", bench.pick(2000, 500))
            bench.measure(ROW, case, contenders, bench.pick(7, 2))


def messages(bench, size):
    return bench.pick(20, 5) if size < 1 << 24 else bench.pick(3, 1)


def arrays(bench, sender, name, size):
    order = {
        "do": "prepare",
        "kind": "shared" if name != "pipe" else "private",
        "size_bytes": size,
        "check": "ends",
    }
    if bench.quick:
        order["warm"] = 1
    return prepared(sender, order, {"do": "round", "messages": messages(bench, size)})


def bare_bytes(bench, sender, size):
    order = {"do": "prepare_bytes", "size_bytes": BARE_BYTES, "change_bytes": size}
    return prepared(sender, order, {"do": "round_bytes", "messages": messages(bench, size)})


def prepared(sender, order, each):
    """A contender that is prepared before its first round.

    The sender makes an array of the size, and sends messages that do not count.
    """
    ready = False

    def run():
        nonlocal ready
        if not ready:
            sender.ask(**order)
            ready = True
        return sender.ask(**each)["seconds"]

    return run
