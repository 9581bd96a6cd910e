"""Forks the tests' other processes, each of which has only imported NumPy.

That import takes a program longer than most tests take. shmarray is imported after the fork, so it
is as new to the process as to a program that was just started.

It gets messages through the socket whose fd is its argument. One with the environment of a new
process, beside its three standard fds, is answered with the new pid; one with a pid, with the exit
status of that process, for which it waits.
"""

import gc
import json
import os
import socket
import sys

import numpy as np


def serve(control):
    """Returns only in the new processes."""
    while True:
        data, fds, *_ = socket.recv_fds(control, 1 << 20, 3)
        if not data:
            sys.exit()
        request = json.loads(data)
        if fds:
            answer = os.fork()
            if answer == 0:
                begin(request, fds)
                return
            for fd in fds:
                os.close(fd)
        else:
            answer = os.waitstatus_to_exitcode(os.waitpid(request, 0)[1])
        control.send(json.dumps(answer).encode())


def begin(environment, fds):
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
        os.close(fd)
    os.environ.clear()
    os.environ.update(environment)


def run_lines():
    """Runs code, a line of JSON each, and answers with what that sets `answer` to."""
    import shmarray

    space = {"np": np, "shmarray": shmarray, "gc": gc}
    for line in sys.stdin:
        exec(json.loads(line), space)
        print(json.dumps(space.pop("answer", None)), flush=True)


with socket.socket(fileno=int(sys.argv[1])) as control:
    serve(control)
run_lines()
