"""Peers that send over a pipe of multiprocessing's kind: what they have in common.

A message is the array as the peer sends it, and nothing else; words between the messages say what
the receiver shall do with it: look at its ends, read all of it, or keep it.
"""

import multiprocessing
import os
import time

import numpy as np

END, ECHO_END = "end", b"-"
KEEP, DROP = "keep", "drop"


def ends(array):
    return array.item(0) + array.item(array.size // 2) + array.item(array.size - 1)


def every(array):
    return int(array.sum())


LOOKS = {"ends": ends, "every": every}


class Peer:
    mp = multiprocessing
    shares = True  # has arrays that are shared before they are sent

    def prepare(self):
        """What must be done before the first fork."""

    def start(self, receivers, core):
        """Before threads and big arrays: receivers are forked."""
        self.prepare()
        self.pipes, self.processes = [], []
        context = self.mp.get_context("fork")
        for _ in range(receivers):
            here, there = context.Pipe()
            process = context.Process(target=serve, args=(self, there, core), daemon=True)
            process.start()
            there.close()
            self.pipes.append(here)
            self.processes.append(process)

    def shared(self, size):
        """An array of `size` u8 that is shared already."""
        raise NotImplementedError

    def forget(self):
        """Gives back what `shared` made; its array is gone."""

    def private(self, size):
        return np.empty(size, "u8")

    def ready(self, array):
        """What is made of an array before the clock runs, after its data changed."""
        return array

    def pack(self, array):
        """What goes into the pipe."""
        return array

    def take(self, message):
        """At the receiver: the array, and what to call when it is no longer used, if anything."""
        return message, None

    def look(self, how):
        for pipe in self.pipes:
            pipe.send(how)
            pipe.recv()

    def exchange(self, array):
        """Sends it and waits for the answer: seconds, and what the receiver saw."""
        pipe = self.pipes[0]
        began = time.perf_counter()
        pipe.send(self.pack(array))
        answer = pipe.recv()
        return time.perf_counter() - began, answer

    def exchange_bytes(self, data):
        """The same pipe with nothing to pickle."""
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
        """All receivers have the array, have read it and keep it."""
        self.look(KEEP)
        answers = []
        for pipe in self.pipes:
            pipe.send(self.pack(array))
            answers.append(pipe.recv())
        return answers

    def drop(self):
        self.look(DROP)

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
    state = {"look": ends, "kept": None}
    while True:
        message = pipe.recv()
        if isinstance(message, str):
            if message == END:
                return
            obey(message, pipe, state)
            continue
        array, close = peer.take(message)
        answer = state["look"](array)
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
        state["look"], state["kept"] = every, []
    elif word == DROP:
        closes = [close for _, close in state["kept"] if close]
        state["kept"] = None
        for close in closes:
            close()
    else:
        state["look"] = LOOKS[word]
