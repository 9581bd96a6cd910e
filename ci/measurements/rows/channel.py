"""Channels: a frame there and back, beside what people use in their place; and one way."""

import contextlib
import os
import select
import subprocess
import sys
import uuid

import timed
from harness import ANSWER_WITHIN_SECONDS, HERE, MADE, Failed, limit, program, reason
from peers import version

ROW = "channel"
PAIRS = "channel pairs"
THROUGHPUT = "channel one way"
SIZES = {"8 bytes": 8, "4 KiB": 4 << 10, "1 MiB": 1 << 20, "6 MB": 6_000_000}
ICEORYX = "iceoryx2 in Rust"
ICEORYX_PYTHON = "iceoryx2 in Python"
FUTEX = "a futex in C"
SPIN = "a word in C"
PROGRAMS = HERE / "programs"
OTHERS = [sys.executable, PROGRAMS / "channels.py"]


def case(size, wait):
    return f"{size}, {wait}"


def measure(bench):
    polling(bench)
    blocking(bench)
    pairs(bench)
    one_way(bench)


def polling(bench):
    count = bench.pick(20_000, 500)
    rounds = bench.pick(7, 1)
    for size, size_bytes in SIZES.items():
        contenders = {
            "Rust": exchange("Rust", "Rust", size_bytes, 5 * count, "poll"),
            "Python": exchange("Python", "Python", size_bytes, count, "poll"),
        }
        if (MADE / "iceoryx-rust").exists():
            command = [MADE / "iceoryx-rust"]
            contenders[ICEORYX] = lambda size=size_bytes, command=command: rounds_of(
                command, command, size, 5 * count, ""
            )
        if version("iceoryx2"):
            command = (sys.executable, PROGRAMS / "iceoryx.py", size_bytes, bench.pick(5000, 500))
            contenders[ICEORYX_PYTHON] = lambda command=command: program(*command)[0]
        contenders[SPIN] = limit("spin", 5 * count)
        bench.measure(ROW, case(size, "polling"), contenders, rounds)


def blocking(bench):
    count = bench.pick(2000, 50)
    rounds = bench.pick(7, 1)
    for size, size_bytes in SIZES.items():
        times = count if size_bytes < 1 << 20 else max(count // 10, 20)
        contenders = {
            "Rust": exchange("Rust", "Rust", size_bytes, count, "block"),
            "Python": exchange("Python", "Python", size_bytes, count, "block"),
            "multiprocessing.Queue": queue(size_bytes, times),
            "a Unix socket": other("socket", size_bytes, times),
        }
        if version("pyzmq"):
            contenders["ZeroMQ over ipc"] = other("zmq", size_bytes, times)
        contenders[FUTEX] = limit("futex", count)
        bench.measure(ROW, case(size, "blocking"), contenders, rounds)


def pairs(bench):
    """Each language asks each for 6 MB frames, with both sides polling."""
    count = bench.pick(5000, 100)
    rounds = bench.pick(5, 1)
    for asks in timed.LANGUAGES:
        contenders = {
            answers: exchange(asks, answers, SIZES["6 MB"], count, "poll")
            for answers in timed.LANGUAGES
        }
        bench.measure(PAIRS, f"{asks} asks", contenders, rounds)


def one_way(bench):
    """Seconds of one message, when so many processes send and so many receive."""
    count = bench.pick(200_000, 2000)
    rounds = bench.pick(5, 1)
    for size, size_bytes in SIZES.items():
        contenders = {
            f"{senders} to {receivers}": one_way_of(size_bytes, count, senders, receivers)
            for senders, receivers in ((1, 1), (1, 4), (4, 1))
        }
        bench.measure(THROUGHPUT, size, contenders, rounds)


def one_way_of(size, count, senders, receivers):
    def run():
        with timed.driver("Rust") as driver:
            order = f"time_send {unique()} {size} {count} {senders} {receivers}"
            return timed.ask(driver, order)[0]

    return run


def unique():
    return f"bench-{uuid.uuid4().hex[:12]}"


def exchange(asks, answers, size, count, wait):
    return lambda: timed.exchange(asks, answers, unique(), size, count, wait)


def other(way, size, count):
    return lambda: rounds_of([*OTHERS, way], [*OTHERS, way], size, count, "block")


def queue(size, count):
    command = (*OTHERS, "queue", "ask", "-", size, count)
    return lambda: program(*command)[0]


def rounds_of(asks, answers, size, count, wait):
    """Runs one program that asks, on the first core, and one that answers, on the last."""
    name = unique()
    cores = sorted(os.sched_getaffinity(0))
    with started(cores[0], asks, "ask", name, size, count, wait) as asking:
        if not select.select([asking.stdout], [], [], ANSWER_WITHIN_SECONDS)[0]:
            raise Failed("it does not begin")
        said = [asking.stdout.readline()]
        with started(cores[-1], answers, "answer", name, size, count, wait) as answering:
            try:
                output, errors = asking.communicate(timeout=ANSWER_WITHIN_SECONDS)
            except subprocess.TimeoutExpired:
                raise Failed("it does not end") from None
            if asking.returncode == 0:
                answering.wait(ANSWER_WITHIN_SECONDS)
    lines = [line for line in [*said, *output.splitlines()] if line.strip() != '"ready"']
    if asking.returncode or not lines:
        raise Failed(reason(errors) if errors.strip() else "it failed")
    return float(lines[-1])


@contextlib.contextmanager
def started(core, command, *arguments):
    process = subprocess.Popen(
        ["taskset", "-c", str(core), *map(str, command), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()
