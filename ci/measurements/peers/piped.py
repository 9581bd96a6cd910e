"""The base of peers that send over a pipe of multiprocessing's kind.

A message is the array as the peer sends it, and nothing else. Words between the messages tell the
receiver what to do with it: look at its ends, read all of it, or keep it.
"""

import multiprocessing
import os
import time

import numpy as np

END = "end"
ECHO_END = b"-"
KEEP = "keep"
DROP = "drop"


def ends(array):
    return array.item(0) + array.item(array.size // 2) + array.item(array.size - 1)


def every(array):
    return int(array.sum())


CHECKS = {"ends": ends, "every": every}


class Peer:
    mp = multiprocessing
    shares = True  # has arrays that are shared before they are sent

    def prepare(self):
        """Does what must be done before the first fork."""

    def start(self, receivers, core):
        """Forks the receivers, before there are threads and big arrays."""
        self.prepare()
        self.pipes = []
        self.processes = []
        context = self.mp.get_context("fork")
        for _ in range(receivers):
            here, there = context.Pipe()
            process = context.Process(target=serve, args=(self, there, core), daemon=True)
            process.start()
            there.close()
            self.pipes.append(here)
            self.processes.append(process)

    def shared(self, size):
        """Makes a shared array of `size` u8."""
        raise NotImplementedError

    def forget(self):
        """Gives back the memory of an array that `shared` made, and that is gone."""

    def private(self, size):
        return np.empty(size, "u8")

    def ready(self, array):
        """Makes what is sent of an array, after its data changed and before the clock starts."""
        return array

    def pack(self, array):
        """Makes what goes into the pipe."""
        return array

    def take(self, message):
        """Returns the receiver's array, and the function that releases it, if any."""
        return message, None

    def check(self, how):
        for pipe in self.pipes:
            pipe.send(how)
            pipe.recv()

    def exchange(self, array):
        """Sends and waits for the answer. Returns the seconds, and what the receiver saw."""
        pipe = self.pipes[0]
        began = time.perf_counter()
        pipe.send(self.pack(array))
        answer = pipe.recv()
        return time.perf_counter() - began, answer

    def exchange_bytes(self, data):
        """The same round trip with bytes alone: there is nothing to pickle."""
        pipe = self.pipes[0]
        began = time.perf_counter()
        pipe.send_bytes(data)
        answer = pipe.recv_bytes()
        return time.perf_counter() - began, answer

    def echo(self):
        self.pipes[0].send("echo")
        self.pipes[0].recv()

    def echo_end(self):
        self.pipes[0].send_bytes(ECHO_END)

    def hold(self, array):
        """Sends the array to all receivers, which read and keep it."""
        self.check(KEEP)
        answers = []
        for pipe in self.pipes:
            pipe.send(self.pack(array))
            answers.append(pipe.recv())
        return answers

    def drop(self):
        self.check(DROP)

    def pids(self):
        return [process.pid for process in self.processes]

    def end(self):
        for pipe in self.pipes:
            pipe.send(END)
        for process in self.processes:
            process.join()


def serve(peer, pipe, core):
    if core is not None:
        os.sched_setaffinity(0, {core})
    state = {"check": ends, "kept": None}
    while True:
        message = pipe.recv()
        if isinstance(message, str):
            if message == END:
                return
            obey(message, pipe, state)
            continue
        array, close = peer.take(message)
        answer = state["check"](array)
        if state["kept"] is not None:
            state["kept"].append((array, close))
        del array, message
        if close and not state["kept"]:
            close()
        pipe.send(answer)


def obey(word, pipe, state):
    pipe.send(word)
    if word == "echo":
        while (data := pipe.recv_bytes()) != ECHO_END:
            pipe.send_bytes(data)
    elif word == KEEP:
        state["check"] = every
        state["kept"] = []
    elif word == DROP:
        closes = [close for _, close in state["kept"] if close]
        state["kept"] = None
        for close in closes:
            close()
    else:
        state["check"] = CHECKS[word]
