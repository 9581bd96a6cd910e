"""Channels: a message there and back, beside what people use in their place; many ends; kills."""

import sys
import uuid

import peers
import timed
from harness import HERE, MADE, Failed, program

POLLING = "channel polling"
BLOCKING = "channel blocking"
PAIRS = "channel pairs"
FLOOD = "channel one way"
BURST = "channel burst"
BURST_CASE = "1,000 messages of 8 bytes"
KILL = "channel kill"
SIZES = {"8 bytes": 8, "4 KiB": 4 << 10, "64 KiB": 64 << 10, "1 MiB": 1 << 20, "4 MiB": 4 << 20}
SMALL, LARGE = "8 bytes", "4 MiB"
SMALL_BYTES = 4 << 10
FRAME_BYTES = 6_000_000
TYPICAL = "p50"
OURS, ICEORYX, LOCAL = "shmarray", "iceoryx2", "crossbeam-channel, one process"
WORDS = {POLLING: "a polled word", BLOCKING: "a futex word"}
OURS_PYTHON, ICEORYX_PYTHON = "shmarray in Python", "iceoryx2 in Python"
# The program's name for a way from Python, and the distribution.
PYTHON = {
    POLLING: {
        OURS_PYTHON: ("shmarray", "shmarray-numpy"),
        ICEORYX_PYTHON: ("iceoryx2", "iceoryx2"),
        "kickmsg in Python": ("kickmsg", "kickmsg"),
    },
    BLOCKING: {
        OURS_PYTHON: ("shmarray", "shmarray-numpy"),
        "kickmsg in Python": ("kickmsg", "kickmsg"),
        "ZeroMQ in Python": ("zmq", "pyzmq"),
        "a Unix socket in Python": ("socket", None),
        "multiprocessing.Queue": ("queue", None),
    },
}
# Ways that copy, or call the kernel for each message.
SLOW = ("ZeroMQ", "ZeroMQ in Python", "a Unix socket", "a Unix socket in Python")
SLOWEST = "multiprocessing.Queue"
# What a copying way moves in a round.
MOST_BYTES = 1_000_000_000
MESSAGES = MADE / "messages"
MANY = 10
ENDS = ((1, 1), (1, 4), (4, 1), (MANY, MANY))
DELIVERIES = 10_000_000  # between many
BROADCASTS = ("shmarray, broadcast", ICEORYX)
FLOODED = (OURS, *BROADCASTS, LOCAL)
NATIVE = (OURS, ICEORYX, "tachyon-ipc", "ringfire", "ZeroMQ", "a Unix socket")
ALONE_MILLISECONDS = 300  # to see what the one that is left does
KILLS = 10


def case(size, who):
    return f"{size}, {who}"


def measure(bench):
    ways = program(MESSAGES, "ways")[0] if MESSAGES.exists() else []
    for way in NATIVE:
        if way not in ways:
            bench.results.fail(POLLING, "every size", way, "it was not built")
    for row in (POLLING, BLOCKING):
        for size in bench.pick(SIZES, (SMALL, LARGE)):
            round_trips(bench, ways, row, size)
    pairs(bench)
    one_way(bench, [way for way in FLOODED if way in ways])
    burst(bench, [way for way in (*NATIVE, LOCAL) if way in ways])
    for way in bench.pick(NATIVE, (OURS, ICEORYX)):
        if way in ways:
            kill(bench, way)


def round_trips(bench, ways, row, size):
    """Each contender says mean and percentiles of its round."""
    wait = "poll" if row == POLLING else "block"
    contenders = {}
    for way in ways:
        who = WORDS[row] if way == "a word" else way
        if way != BROADCASTS[0] and (way != LOCAL or size == SMALL):
            command = (MESSAGES, "round", way)
            contenders[who] = round_trip(bench, command, who, SIZES[size], wait)
    for who, (way, package) in PYTHON[row].items():
        if package is None or peers.version(package):
            command = (sys.executable, HERE / "programs/channels.py", way)
            contenders[who] = round_trip(bench, command, who, SIZES[size], wait)
    bench.measure(row, size, contenders, bench.pick(5, 1))


def round_trip(bench, command, who, size, wait):
    count = count_of(who, size, wait)
    count = bench.pick(count, max(count // 1000, 50))
    return lambda: program(*command, size, count, wait)[0]


def count_of(who, size, wait):
    """The round trips of a round; five rounds of small messages are a million."""
    count = 200_000
    if wait == "poll" and who not in SLOW and "Python" not in who:
        count = 1_000_000
    elif wait == "block" and (size > SMALL_BYTES or "Python" in who or who == SLOWEST):
        count = 20_000
    if who in SLOW or who == SLOWEST:
        count = min(count, MOST_BYTES // size)
    return count // 10 if who == SLOWEST else count


def pairs(bench):
    """Each language asks each for 6 MB frames, with both sides polling."""
    count = bench.pick(5000, 100)
    rounds = bench.pick(5, 1)
    for asks in timed.LANGUAGES:
        contenders = {
            answers: exchange(asks, answers, FRAME_BYTES, count, "poll")
            for answers in timed.LANGUAGES
        }
        bench.measure(PAIRS, f"{asks} asks", contenders, rounds)


def exchange(asks, answers, size, count, wait):
    def run():
        name = f"bench-{uuid.uuid4().hex[:12]}"
        return timed.exchange(asks, answers, name, size, count, wait)

    return run


def one_way(bench, ways):
    """Seconds of one message, when so many processes send and so many receive."""
    rounds = bench.pick(3, 1)
    for senders, receivers in ENDS:
        for size in (SMALL, LARGE):
            if senders == MANY and size == LARGE:
                continue
            contenders = {
                way: flood(bench, way, SIZES[size], senders, receivers)
                for way in ways
                if way != LOCAL or size == SMALL
            }
            bench.measure(FLOOD, f"{senders} to {receivers}, {size}", contenders, rounds)


def flood(bench, way, size, senders, receivers):
    count = bench.pick(DELIVERIES if senders == MANY else 200_000, 2000)
    if way in BROADCASTS:
        count //= receivers

    def run():
        (found,) = program(MESSAGES, "flood", way, size, count, senders, receivers)
        if found["lost"]:
            where = f"{senders} to {receivers}"
            bench.results.fail(FLOOD, where, way, f"{found['lost']} deliveries were lost")
        return found["seconds"]

    return run


def burst(bench, ways):
    """How often a sleeping receiver sleeps again before it has all of 1,000 messages, and once."""
    contenders = {way: lambda way=way: program(MESSAGES, "burst", way)[0] for way in ways}
    bench.measure(BURST, BURST_CASE, contenders, bench.pick(5, 1), "count")


def kill(bench, way):
    """Says what the other process sees, and the worst of some kills."""
    for victim, other in (("receiver", "sender"), ("sender", "receiver")):
        try:
            kills = [program(MESSAGES, "kill", way, victim, ALONE_MILLISECONDS)[0]]
            if kills[0]["seconds"] is not None:
                kills += [program(MESSAGES, "kill", way, victim, 0)[0] for _ in range(KILLS)]
        except Failed as error:
            bench.results.fail(KILL, f"the {victim} is killed", way, error)
            continue
        bench.results.say(KILL, way, f"the {victim} is killed", cost(kills, victim, other))


def cost(kills, victim, other):
    lost, files, size = (max(found[key] for found in kills) for key in ("lost", "files", "bytes"))
    after = [found["seconds"] for found in kills]
    goes_on = (
        f"with a new {victim} alone it does not go on"
        if None in after
        else f"a new {victim} goes on after at most {max(after) * 1e3:.3g} ms;"
        f" messages lost: at most {lost}"
    )
    left = f"{files} ({size / 1024:.0f} KiB)" if files else "none"
    return f"the {other} sees {kills[0]['sees']}; {goes_on}; files left: {left}"
