"""The machine's limits: the copies, calls and wake-ups that no library can beat."""

import os

from harness import limit

ROW = "limits"
COPY_BYTES = 400_000_000
COUNT = 2000


def measure(bench):
    rounds = bench.pick(7, 1)
    threads = len(os.sched_getaffinity(0))
    contenders = {
        "memcpy, one thread": limit("copy", COPY_BYTES, 1),
        f"memcpy, {threads} threads": limit("copy", COPY_BYTES, threads),
    }
    bench.measure(ROW, "400 MB copied, warm", contenders, rounds)
    bench.measure(ROW, "open and map", {"open and map": limit("open", 200)}, rounds)
    waking = {f"{name}, 200 bytes": limit(name, COUNT) for name in ("pipe", "socketpair")}
    waking |= {"futex": limit("futex", COUNT), "spin": limit("spin", 50 * COUNT)}
    bench.measure(ROW, "there and back", waking, rounds)
