"""Measures what others use in place of channels.

    python channels.py WAY ask NAME BYTES COUNT poll|block
    python channels.py WAY answer NAME BYTES poll|block

WAY is queue (multiprocessing), socket (a Unix socket) or zmq (ZeroMQ over ipc). It prints the
seconds of a message there and back as a line of JSON. Each is given a frame that is there, as a
program has it; those of ../../checks/drivers fill one in place.
"""

import multiprocessing
import os
import pathlib
import socket
import sys
import tempfile
import time

WARM_UP = 100


def path(name):
    return str(pathlib.Path(tempfile.gettempdir()) / f"{name}.bench")


class UnixSocket:
    """A stream socket of the kernel, with the bytes of a frame after each other."""

    def __init__(self, name, size, _wait, asks):
        self._frame = bytearray(size)
        self._size = size
        if asks:
            server = socket.socket(socket.AF_UNIX)
            server.bind(path(name))
            server.listen(1)
            print('"ready"', flush=True)
            self._socket, _ = server.accept()
            os.unlink(path(name))
        else:
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.connect(path(name))
        self._view = memoryview(bytearray(size))

    def send(self, first):
        self._frame[0] = first
        self._socket.sendall(self._frame)

    def receive(self):
        got = 0
        while got < self._size:
            more = self._socket.recv_into(self._view[got:])
            if more == 0:
                raise EOFError
            got += more
        return self._view[0]


class ZeroMQ:
    """A pair of sockets over ipc, and a message that is not copied on receive."""

    def __init__(self, name, size, wait, asks):
        import zmq

        self._frame = bytearray(size)
        self._socket = zmq.Context.instance().socket(zmq.PAIR)
        self._flags = zmq.NOBLOCK if wait == "poll" else 0
        self._again = zmq.Again
        (self._socket.bind if asks else self._socket.connect)(f"ipc://{path(name)}")

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
    """Two of multiprocessing's queues, between a parent and its child."""

    def __init__(self, queues, size):
        (self._out, self._in) = queues
        self._frame = bytearray(size)

    def send(self, first):
        self._frame[0] = first
        self._out.put(bytes(self._frame))

    def receive(self):
        return self._in.get()[0]


WAYS = {"socket": UnixSocket, "zmq": ZeroMQ}


def ask(side, count):
    for number in range(-WARM_UP, count):
        if number == 0:
            began = time.perf_counter()
        side.send(number & 255)
        if side.receive() != number & 255:
            sys.exit("another frame came back")
    print((time.perf_counter() - began) / count)


def answer(side, count):
    for _ in range(count):
        side.send(side.receive())


def by_queue(size, count):
    cores = sorted(os.sched_getaffinity(0))
    context = multiprocessing.get_context("fork")
    there = context.Queue()
    back = context.Queue()

    def child():
        os.sched_setaffinity(0, {cores[-1]})
        answer(StandardQueue((back, there), size), count + WARM_UP)

    process = context.Process(target=child)
    process.start()
    os.sched_setaffinity(0, {cores[0]})
    ask(StandardQueue((there, back), size), count)
    process.join()


def main(way, does, name, size, *rest):
    if way == "queue":
        return by_queue(int(size), int(rest[0]))
    asks = does == "ask"
    wait = rest[-1]
    side = WAYS[way](name, int(size), wait, asks)
    if asks and way != "socket":
        print('"ready"', flush=True)
    count = int(rest[0])
    return ask(side, count) if asks else answer(side, count + WARM_UP)


if __name__ == "__main__":
    main(*sys.argv[1:])
