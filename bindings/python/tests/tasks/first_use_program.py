"""Forks a process at each step of the first use of an operation by another of its threads.

`python first_use_program.py OPERATION…` prints a line of JSON for each: its name, how many steps it
has, at how many of them the process forked, and the exit statuses of the children that were not 0.

This process has only imported the library. It forks a family for each step. The family's second
thread does the operation; its main thread takes turns with it, and forks after so many turns. A
turn of the second thread ends where it lets others run, and with the shortest switch interval
after nearly each of Python's own instructions. The forked child does the same operation. If it
waits for what only the lost thread could finish, its watchdog ends it, and writes to stderr where
it waits.
"""

import ctypes
import faulthandler
import functools
import io
import json
import os
import sys
import tempfile
import threading
import time
import warnings

import numpy as np

import shmarray
import shmarray.concurrent
import shmarray.multiprocessing as mp

WATCHDOG_S = 60
"""Far longer than any operation takes."""
PAUSE_US = 1000
MOST = 30
"""The most forks of one family."""
STRIDES = (1, 2, 7)
"""A long operation is forked in also far from its beginning."""

FOLDER = tempfile.mkdtemp()
RECORD = [("number", "<f8"), ("text", "S7")]


def attach(dtype):
    ours = shmarray.zeros(3, dtype)
    shmarray.attach(str(shmarray.handle(ours)))


def refused():
    """Raises and converts an error of core, one of arguments, and one of a type."""
    for wrong in (lambda: shmarray.attach("no-such-name"), lambda: shmarray.attach(7)):
        try:
            wrong()
        except (FileNotFoundError, TypeError):
            continue
        raise AssertionError("it was accepted")


def save_and_load():
    one, two = (f"{FOLDER}/{os.getpid()}.{suffix}" for suffix in ("npy", "npz"))
    shmarray.save_npy(one, np.arange(9))
    shmarray.save_npz(two, a=np.arange(9), b=np.zeros(3))
    shmarray.load_npy(one)
    with open(one, "rb") as file:
        shmarray.load_npy(io.BytesIO(file.read()), shared=False)
    with shmarray.load_npz(two) as archive:
        archive["a"], archive["b"]
    shmarray.load_batch([one] * 2)


def channel():
    with shmarray.Channel.create(f"first-{os.getpid()}", 3, "i8", slots=4) as ours:
        ours.send(np.arange(3))
        with ours.loan() as loan:
            loan[:] = 1
        ours.receive()
        ours.receive()


def private_pipe():
    ours, theirs = mp.Pipe()
    theirs.send(np.arange(9))
    ours.recv()


def queue():
    ours = mp.Queue()
    ours.put(np.arange(9))
    ours.get()
    ours.close()
    ours.join_thread()


def simple_queue():
    ours = mp.SimpleQueue()
    ours.put(np.arange(9))
    ours.get()


def process():
    child = mp.get_context("fork").Process(target=np.zeros, args=(3,))
    child.start()
    child.join()
    if child.exitcode != 0:
        raise AssertionError(f"the process ended with {child.exitcode}")


def manager():
    with mp.get_context("fork").Manager() as ours:
        ours.list([np.arange(9)])


def locks():
    for make in (mp.Lock, mp.RLock, mp.Event, mp.Condition, mp.Semaphore):
        make()
    mp.Barrier(2)
    mp.Value("i", 3)
    mp.Array("d", 3)


def pool():
    with mp.get_context("fork").Pool(1) as ours:
        ours.map(np.sum, [np.arange(9)] * 2)


def executor():
    context = mp.get_context("fork")
    with shmarray.concurrent.ProcessPoolExecutor(1, mp_context=context) as ours:
        ours.submit(np.sum, np.arange(9)).result()


OPERATIONS = {
    "zeros": lambda: shmarray.zeros(3),
    "permuted": lambda: shmarray.empty_like(np.zeros((2, 3, 4)).transpose(1, 0, 2)),
    "structured": lambda: shmarray.zeros(3, RECORD),
    "share": lambda: shmarray.share(np.zeros(3)),
    "is_shared": lambda: shmarray.is_shared(np.zeros(3)),
    "handle": lambda: shmarray.handle(shmarray.zeros(3)),
    "attach": lambda: attach(np.float64),
    "attach a structured": lambda: attach(RECORD),
    "refused": refused,
    "dumps": lambda: shmarray.loads(shmarray.dumps({"a": np.zeros(3), "b": np.zeros(9000)})),
    "dumps of bytes": lambda: shmarray.loads(shmarray.dumps([bytes(90000), bytearray(90000)])),
    "discard": lambda: shmarray.discard(shmarray.dumps(np.zeros(9000))),
    "segments": shmarray.segments,
    "sweep": shmarray.sweep,
    "channel": channel,
    "files": save_and_load,
    "pipe": private_pipe,
    "queue": queue,
    "simple queue": simple_queue,
    "process": process,
    "manager": manager,
    "locks": locks,
    "pool": pool,
    "executor": executor,
}


def in_child(work, watchdog=None):
    """Starts a child that does the work, and returns its pid."""
    pid = os.fork()
    if pid != 0:
        return pid
    status = 1
    try:
        if watchdog is not None:
            faulthandler.dump_traceback_later(watchdog, exit=True)
        work()
        status = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)


def status_of(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def hold_the_gil_before_each_call():
    """Lets this thread keep the GIL for a while before each call of a function, so that the other
    thread waits for it when the function lets others run, however briefly.
    """
    pause = ctypes.PyDLL(None).usleep  # keeps the GIL
    pause.argtypes = [ctypes.c_uint, *[ctypes.py_object] * 3]
    sys.setprofile(functools.partial(pause, PAUSE_US))


def family(operation, stride, said):
    """Does the operation in a thread, and forks after each turn of it whose number this divides.
    Writes the statuses of the children.
    """
    gate = threading.Lock()
    passed = []

    def use():
        with gate:
            passed.append("the gate")
        hold_the_gil_before_each_call()
        operation()
        sys.setprofile(None)
        passed.append("its end")

    gate.acquire()
    thread = threading.Thread(target=use)
    thread.start()
    sys.setswitchinterval(1e-6)
    gate.release()
    while not passed:
        time.sleep(0)
    turns = 0
    children = []
    while len(passed) < 2 and len(children) < MOST:
        if turns % stride == 0:
            children.append(in_child(operation, WATCHDOG_S))
        turns += 1
        time.sleep(0)  # the other thread's turn, if it wants one
    thread.join()
    os.write(said, json.dumps([status_of(pid) for pid in children]).encode())


def ends_of(operation, stride):
    """Returns how the children ended of a family with this stride.

    The operation of a family may be over before its main thread has a turn: then another family
    does it.
    """
    ends = []
    while not ends:
        ends = ends_of_one_family(operation, stride)
    return ends


def ends_of_one_family(operation, stride):
    hear, said = os.pipe()
    pid = in_child(lambda: family(operation, stride, said))
    os.close(said)
    with open(hear) as line:
        ends = line.read()
    if status_of(pid) != 0:
        raise AssertionError("the family did not end well")
    return json.loads(ends)


def main(names):
    for name in names:
        ends = [end for stride in STRIDES for end in ends_of(OPERATIONS[name], stride)]
        print(json.dumps([name, len(ends), [end for end in ends if end]]))


if __name__ == "__main__":
    warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
    main(sys.argv[1:] or OPERATIONS)
