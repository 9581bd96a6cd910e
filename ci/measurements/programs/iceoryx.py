"""iceoryx2 from Python: sends a loaned frame and gets another back, with both sides polling.

python iceoryx.py BYTES COUNT        prints the seconds of one round trip
"""

import ctypes
import json
import os
import pathlib
import shutil
import sys
import tempfile
import time

import iceoryx2

WARM_UP = 100
KEPT = {pathlib.Path("/dev/shm"): "iox2_*", pathlib.Path(tempfile.gettempdir()): "iceoryx2"}
iceoryx2.set_log_level(iceoryx2.LogLevel.Error)


class Side:
    """Sends on one service and receives on another."""

    def __init__(self, out, back, size):
        self._node = iceoryx2.NodeBuilder.new().create(iceoryx2.ServiceType.Ipc)
        self._publisher = (
            self._service(out).publisher_builder().initial_max_slice_len(size).create()
        )
        self._subscriber = self._service(back).subscriber_builder().create()
        self._size = size

    def _service(self, name):
        builder = self._node.service_builder(iceoryx2.ServiceName.new(name))
        return builder.publish_subscribe(iceoryx2.Slice[ctypes.c_uint8]).open_or_create()

    def send(self, number):
        """Sends a frame, of which it writes only the first byte.

        Filling the rest costs the same in every system.
        """
        sample = self._publisher.loan_slice_uninit(self._size)
        ctypes.c_uint8.from_address(sample.payload_ptr).value = number & 255
        sample.assume_init().send()

    def receive(self):
        while (sample := self._subscriber.receive()) is None:
            pass
        number = ctypes.c_uint8.from_address(sample.payload_ptr).value
        sample.delete()
        return number


def answer(names, size, count, core):
    os.sched_setaffinity(0, {core})
    side = Side(*names, size)
    print("ready", flush=True)
    for _ in range(count):
        side.send(side.receive())


def ask(side, count):
    for number in range(count):
        side.send(number)
        if side.receive() != number & 255:
            sys.exit("another frame came back")


def kept():
    """The files that iceoryx2 leaves for its next use."""
    return {path for folder, pattern in KEPT.items() for path in folder.glob(pattern)}


def main(size, count):
    before = kept()
    measure(size, count)
    for path in kept() - before:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def measure(size, count):
    cores = sorted(os.sched_getaffinity(0))
    names = f"bench-{os.getpid()}-there", f"bench-{os.getpid()}-back"
    ready, output = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(output, 1)
        answer(names[::-1], size, count + WARM_UP, cores[-1])
        os._exit(0)
    os.sched_setaffinity(0, {cores[0]})
    side = Side(*names, size)
    os.read(ready, 1)
    ask(side, WARM_UP)
    began = time.perf_counter()
    ask(side, count)
    print(json.dumps((time.perf_counter() - began) / count))
    os.waitpid(child, 0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
