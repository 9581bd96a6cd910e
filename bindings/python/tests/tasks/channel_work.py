"""What processes do that tests of channels start. It imports no pytest, which is slow."""

import os
import signal

import numpy as np

from shmarray import Channel

COUNT = 10


def send_and_close(channel):
    for number in range(COUNT):
        channel.send(np.full(3, number))
    channel.close()


def send(channel):
    channel.send(np.zeros(3, "i8"))


def send_by_name(name):
    send(Channel.open(name, receive=False))


def send_by_a_global(name):
    global kept
    kept = Channel.open(name, receive=False)
    send(kept)


def send_and_raise(channel):
    send(channel)
    raise SystemExit("not an error to be seen")


def send_and_exit_at_once(channel):
    send(channel)
    os._exit(0)


def send_and_die(channel):
    send(channel)
    os.kill(os.getpid(), signal.SIGKILL)


def receive_all(channel, answers):
    answers.send([int(frame[0]) for frame in channel])


def send_through_what_comes(queue):
    send_and_close(queue.get())


class Killer:
    """Kills the process that unpickles it."""

    def __reduce__(self):
        return _die, ()


def _die():
    os.kill(os.getpid(), signal.SIGKILL)


def nothing(*_arguments):
    pass


class HasChannel:
    """An object with a channel, whose method is the target of a process."""

    def __init__(self, channel):
        self.channel = channel

    def send_and_close(self):
        send_and_close(self.channel)
