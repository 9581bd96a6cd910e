"""Measures a message there and back from Python, by channels and by what others use in their place.

    python channels.py WAY BYTES COUNT poll|block

It prints mean and percentiles in seconds as a line of JSON. Only the first byte is written, where
the way gives the memory: filling the rest costs the same in every way.
"""

import ctypes
import json
import multiprocessing
import os
import pathlib
import shutil
import signal
import socket
import sys
import tempfile
import time

import numpy as np

WARM_UP = 100
PERCENTILES = (50, 99, 99.9, 99.99)
NAME = f"messages-{os.getpid()}"
PARTS = f"{NAME}-there", f"{NAME}-back"
PATIENCE_SECONDS = 10.0
SHM, TEMPORARY = pathlib.Path("/dev/shm"), pathlib.Path(tempfile.gettempdir())
KEPT = (SHM, "iox2_*"), (TEMPORARY, "iceoryx2"), (SHM, f"{NAME}*"), (TEMPORARY, f"{NAME}*")
PR_SET_PDEATHSIG = 1


def kept():
    """The files that libraries leave for their next use."""
    return {path for folder, pattern in KEPT for path in folder.glob(pattern)}


class Shmarray:
    """Our channels."""

    def __init__(self, size, wait):
        self._size, self._polls = size, wait == "poll"

    def open(self, out, back):
        import shmarray

        self._out, self._in = (
            shmarray.Channel.create(name, self._size, "u1", slots=8, exist_ok=True)
            for name in (out, back)
        )

    def send(self, first):
        with self._out.loan() as frame:
            frame[0] = first

    def receive(self):
        while self._polls and not self._in.poll():
            pass
        with self._in.receive() as frame:
            return int(frame[0])


class Iceoryx2:
    """Publish and subscribe, with both sides polling."""

    def __init__(self, size, _wait):
        self._size = size

    def open(self, out, back):
        import iceoryx2

        iceoryx2.set_log_level(iceoryx2.LogLevel.Fatal)
        self._node = iceoryx2.NodeBuilder.new().create(iceoryx2.ServiceType.Ipc)
        services = [
            self._node.service_builder(iceoryx2.ServiceName.new(name))
            .publish_subscribe(iceoryx2.Slice[ctypes.c_uint8])
            .open_or_create()
            for name in (out, back)
        ]
        self._publisher = services[0].publisher_builder().initial_max_slice_len(self._size).create()
        self._subscriber = services[1].subscriber_builder().create()

    def send(self, first):
        sample = self._publisher.loan_slice_uninit(self._size)
        ctypes.c_uint8.from_address(sample.payload_ptr).value = first
        sample.assume_init().send()

    def receive(self):
        while (sample := self._subscriber.receive()) is None:
            pass
        first = ctypes.c_uint8.from_address(sample.payload_ptr).value
        sample.delete()
        return first


class Kickmsg:
    """Publish and subscribe, by slots that are written and read in place."""

    def __init__(self, size, wait):
        self._size, self._polls = size, wait == "poll"

    def open(self, out, back):
        import kickmsg

        config = kickmsg.Config()
        config.max_subscribers, config.sub_ring_capacity, config.pool_size = 2, 8, 16
        config.max_payload_size = self._size
        there, here = (
            kickmsg.SharedRegion.create_or_open(f"/{name}", kickmsg.ChannelType.PubSub, config)
            for name in (out, back)
        )
        self._publisher = kickmsg.Publisher(there)
        self._subscriber = kickmsg.Subscriber(here)

    def send(self, first):
        slot = self._publisher.allocate()
        memoryview(slot)[0] = first
        slot.publish(self._size)

    def receive(self):
        if self._polls:
            while (view := self._subscriber.try_receive_view()) is None:
                pass
        else:
            view = self._subscriber.receive_view(PATIENCE_SECONDS)
        with view:
            return memoryview(view)[0]


class UnixSocket:
    """A stream socket of the kernel, with the bytes of a frame after each other."""

    def __init__(self, size, _wait):
        self._ends = socket.socketpair()
        self._frame = bytearray(size)
        self._view = memoryview(bytearray(size))

    def open(self, out, back):
        self._socket = self._ends[out < back]

    def send(self, first):
        self._frame[0] = first
        self._socket.sendall(self._frame)

    def receive(self):
        got = 0
        while got < len(self._view):
            more = self._socket.recv_into(self._view[got:])
            if more == 0:
                raise EOFError
            got += more
        return self._view[0]


class ZeroMQ:
    """A pair of sockets over ipc, and a message that is not copied on receive."""

    def __init__(self, size, wait):
        self._frame = bytearray(size)
        self._polls = wait == "poll"

    def open(self, out, back):
        import zmq

        self._socket = zmq.Context.instance().socket(zmq.PAIR)
        self._flags = zmq.NOBLOCK if self._polls else 0
        self._again = zmq.Again
        connect = self._socket.bind if out < back else self._socket.connect
        connect(f"ipc://{TEMPORARY / NAME}")

    def send(self, first):
        self._frame[0] = first
        self._socket.send(self._frame, copy=True)

    def receive(self):
        while True:
            try:
                return self._socket.recv(self._flags, copy=False).buffer[0]
            except self._again:
                continue


class StandardQueue:
    """Two of multiprocessing's queues."""

    def __init__(self, size, _wait):
        context = multiprocessing.get_context("fork")
        self._queues = {part: context.Queue() for part in PARTS}
        self._frame = bytearray(size)

    def open(self, out, back):
        self._out, self._in = self._queues[out], self._queues[back]

    def send(self, first):
        self._frame[0] = first
        self._out.put(bytes(self._frame))

    def receive(self):
        return self._in.get()[0]


WAYS = {
    "shmarray": Shmarray,
    "iceoryx2": Iceoryx2,
    "kickmsg": Kickmsg,
    "socket": UnixSocket,
    "zmq": ZeroMQ,
    "queue": StandardQueue,
}


def ask(side, count):
    for number in range(count):
        began = time.perf_counter_ns()
        side.send(number & 255)
        first = side.receive()
        yield time.perf_counter_ns() - began
        if first != number & 255:
            sys.exit("another message came back")


def answer(side, count, core):
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.sched_setaffinity(0, {core})
    side.open(*PARTS[::-1])
    yield
    for _ in range(count):
        side.send(side.receive())
    yield


def measure(side, count):
    cores = sorted(os.sched_getaffinity(0))
    here, there = multiprocessing.Pipe()
    if os.fork() == 0:
        for _ in answer(side, WARM_UP + count, cores[-1]):
            there.send("ready")
            there.recv()  # what it sent is not to go with it
        os._exit(0)
    os.sched_setaffinity(0, {cores[0]})
    side.open(*PARTS)
    here.recv()
    here.send("begin")
    for _ in ask(side, WARM_UP):
        pass
    times = np.fromiter(ask(side, count), float, count) * 1e-9
    here.recv()
    here.send("end")
    os.wait()
    return times


def main(way, size, count, wait):
    before = kept()
    times = measure(WAYS[way](int(size), wait), int(count))
    for path in kept() - before:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    parts = zip(PERCENTILES, np.percentile(times, PERCENTILES), strict=True)
    print(json.dumps({"mean": times.mean()} | {f"p{part:g}": value for part, value in parts}))


if __name__ == "__main__":
    main(*sys.argv[1:])
