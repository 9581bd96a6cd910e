"""Ray: `put`, and a call of an actor with the reference. Objects do not change once put."""

import os
import time

import numpy as np
import ray

from peers.piped import CHECKS

STORE_BYTES = 6 << 30


class Actor:
    def __init__(self, core):
        if core is not None:
            os.sched_setaffinity(0, {core})
        self._kept = None

    def pid(self):
        return os.getpid()

    def check(self, array, how):
        return CHECKS[how](array)

    def keep(self, array):
        self._kept = array
        return int(array.sum())

    def drop(self):
        self._kept = None


class Peer:
    shares = True

    def start(self, receivers, core):
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        os.environ["PYTHONPATH"] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        ray.init(
            num_cpus=receivers + 1,
            include_dashboard=False,
            object_store_memory=STORE_BYTES,
            logging_level="error",
            log_to_driver=False,
        )
        self._check = "ends"
        self._put = False
        self._actors = [ray.remote(num_cpus=1)(Actor).remote(core) for _ in range(receivers)]
        self._pids = ray.get([actor.pid.remote() for actor in self._actors])

    def shared(self, size):
        self._put = True
        return np.empty(size, "u8")

    def forget(self):
        self._put = False

    def private(self, size):
        return np.empty(size, "u8")

    def ready(self, array):
        return ray.put(array) if self._put else array

    def check(self, how):
        self._check = how

    def exchange(self, array):
        began = time.perf_counter()
        reference = array if self._put else ray.put(array)
        answer = ray.get(self._actors[0].check.remote(reference, self._check))
        del reference
        return time.perf_counter() - began, answer

    def hold(self, array):
        self._reference = ray.put(array)
        return ray.get([actor.keep.remote(self._reference) for actor in self._actors])

    def drop(self):
        ray.get([actor.drop.remote() for actor in self._actors])
        del self._reference

    def pids(self):
        return self._pids

    def end(self):
        ray.shutdown()
