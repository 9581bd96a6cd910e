"""The scenarios that test_starts runs under each start method of the standard multiprocessing."""

import json
import multiprocessing
import os
import sys
import warnings

import numpy as np

import shmarray

warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)


def double(text):
    array = shmarray.attach(text)
    array *= 2
    return os.getpid()


def make(number):
    array = shmarray.full((1024, 128), number, "i8")
    held.append(array)
    return str(shmarray.handle(array))


held = []


def make_and_wait(pipe):
    pipe.send([make(number) for number in range(4)])
    pipe.recv()


def make_and_exit(pipe):
    """Ends when the other side has said that it attached."""
    pipe.send(make(7))
    assert pipe.recv() == "attached"


def attach_and_outlive(text, pipe, question, answer):
    """Goes on when the process that started it is gone. Then the named pipes lead on."""
    array = shmarray.attach(text)
    pipe.send(os.getpid())
    with open(question) as waited:
        value = int(waited.read())
    array[1, 2] = value
    again = shmarray.attach(text)
    with open(answer, "w") as said:
        json.dump(again.tolist(), said)


def in_place(context):
    """A worker changes what its starter holds."""
    array = shmarray.array(np.arange(12).reshape(3, 4))
    worker = context.Process(target=double, args=(str(shmarray.handle(array[1:, ::2])),))
    worker.start()
    worker.join()
    return worker.exitcode, array.tolist()


def handed_back(context):
    """The starter keeps what a worker made when the worker has ended."""
    ours, theirs = context.Pipe()
    worker = context.Process(target=make_and_exit, args=(theirs,))
    worker.start()
    array = shmarray.attach(ours.recv())
    ours.send("attached")
    worker.join()
    return worker.exitcode, shmarray.sweep().segments, set(array.ravel().tolist()) == {7}


def killed(context):
    """What only a killed worker held is reclaimed; what its starter holds stays."""
    shmarray.sweep()
    ours, theirs = context.Pipe()
    worker = context.Process(target=make_and_wait, args=(theirs,))
    worker.start()
    texts = ours.recv()
    array = shmarray.attach(texts[3])
    worker.kill()
    worker.join()
    swept = shmarray.sweep().segments
    array[0, 0] = 50
    return worker.exitcode, swept, shmarray.attach(texts[3])[0, :2].tolist()


def pool(context):
    """Workers share one array among them, and are terminated with all that they made."""
    array = shmarray.ones((40, 5))
    with context.Pool(2) as workers:
        pids = workers.map(double, [str(shmarray.handle(row)) for row in array], chunksize=1)
        texts = workers.map(make, range(10), chunksize=1)
        firsts = [int(shmarray.attach(text)[0, 0]) for text in texts]
    workers.join()
    return os.getpid() in pids, set(array.ravel().tolist()) == {2}, firsts


def starter_first(context, question, answer, ending):
    """The starter ends while its worker holds an array; prints the worker's pid."""
    array = shmarray.array(np.arange(6).reshape(2, 3))
    ours, theirs = context.Pipe()
    arguments = (str(shmarray.handle(array)), theirs, question, answer)
    context.Process(target=attach_and_outlive, args=arguments).start()
    print(json.dumps(ours.recv()), flush=True)
    os.read(0, 1)
    os.kill(os.getpid(), 9) if ending == "killed" else os._exit(0)


if __name__ == "__main__":
    method, scenario, *rest = sys.argv[1:]
    print(json.dumps(globals()[scenario](multiprocessing.get_context(method), *rest)))
