"""One peer's sender, in a process of its own: answers each line of JSON by one line.

    python contender.py PEER

It starts the peer's receivers, which are pinned to the last core. Data change before every message,
and the receiver's answer is compared with what it must have seen.
"""

import contextlib
import json
import os
import sys

import memory
import numpy as np
import peers

WARM_UP = 3


def cores():
    """The core of the sender and that of the receivers, the same if there is only one."""
    mine = sorted(os.sched_getaffinity(0))
    return mine[0], mine[-1]


class Sender:
    def __init__(self, name, every_core):
        self.peer = peers.make(name)
        self.array = None
        self.first = 0
        self.bytes = None
        self.ended = False
        self.every_core = every_core
        (self.own, self.other) = cores()

    def start(self, receivers=1):
        self.peer.start(receivers, self.other)
        return {}

    def prepare(self, kind, size_bytes, check, all_cores=False, warm=WARM_UP):
        """Makes an array of the kind, and sends a few messages that are not measured."""
        self.forget()
        os.sched_setaffinity(0, self.every_core if all_cores else {self.own})
        self.array = getattr(self.peer, kind)(size_bytes // 8)
        self.array[:] = np.arange(self.array.size, dtype="u8")
        self.first = 0
        self.peer.check(check)
        self.check = check
        for _ in range(warm):
            self.message()
        return {}

    def prepare_bytes(self, size_bytes, change_bytes):
        """Prepares messages of bytes alone.

        As much data changes between them as between arrays, which cools caches and cores.
        """
        os.sched_setaffinity(0, {self.own})
        if self.bytes is None:
            self.peer.echo()
        self.bytes = bytearray(size_bytes)
        self.array = np.zeros(change_bytes // 8, "u8")
        return {}

    def message(self):
        self.array += np.uint64(1)
        self.first += 1
        seconds, answer = self.peer.exchange(self.peer.ready(self.array))
        self.verify(answer, self.check)
        return seconds

    def verify(self, answer, check):
        size = self.array.size
        first = self.first
        if check == "ends":
            expected = 3 * first + size // 2 + size - 1
        else:
            expected = (size * first + size * (size - 1) // 2) % (1 << 64)
        if answer != expected:
            raise AssertionError(f"the receiver saw {answer} instead of {expected}")

    def round(self, messages):
        return {"seconds": [self.message() for _ in range(messages)]}

    def round_bytes(self, messages):
        seconds = []
        for number in range(messages):
            self.bytes[number % len(self.bytes)] ^= 0x55
            self.array += np.uint64(1)
            took, answer = self.peer.exchange_bytes(self.bytes)
            if answer != self.bytes:
                raise AssertionError("the echo differs")
            seconds.append(took)
        return {"seconds": seconds}

    def memory(self, size_bytes):
        """The bytes of each process and of shared memory, once all receivers have one array."""
        before = memory.used_shared()
        baseline = sum(process["pss"] for process in self.processes())
        self.prepare("private", size_bytes, "every", warm=0)
        with memory.Peak() as peak:
            for answer in self.peer.hold(self.array):
                self.verify(answer, "every")
        sender, *receivers = self.processes()
        found = {
            "sender": sender,
            "receivers": receivers,
            "baseline": baseline,
            "shared_files": memory.used_shared() - before,
            "shared_files_peak": peak.most - before,
        }
        self.peer.drop()
        return found

    def processes(self):
        return [memory.of_process(pid) for pid in (os.getpid(), *self.peer.pids())]

    def forget(self):
        self.array = None
        self.peer.forget()

    def end(self):
        """Ends, on command or because the harness has gone."""
        if not self.ended:
            self.ended = True
            self.forget()
            if self.bytes is not None:
                self.peer.echo_end()
            self.peer.end()
        return {}


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a peer prints goes to the log
    sender = Sender(sys.argv[1], os.sched_getaffinity(0))
    for line in sys.stdin:
        order = json.loads(line)
        try:
            answer = getattr(sender, order.pop("do"))(**order)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps(answer), file=answers, flush=True)
    sender.end()


if __name__ == "__main__":
    main()
