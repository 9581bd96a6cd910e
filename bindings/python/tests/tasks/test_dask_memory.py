"""What memory a worker of Dask uses: the private, and its share of what others have mapped, too."""

import os

import shmarray
from shmarray.dask import _memory


def test_memory_that_processes_share_counts_once(peer):
    size = 64 << 20
    a = shmarray.ones(size, "u1")
    alone = _memory.Memory(os.getpid()).used_bytes(looks_now=True)
    peer.run("a = shmarray.attach(text)\nanswer = int(a.sum())", text=str(shmarray.handle(a)))
    together = _memory.Memory(os.getpid()).used_bytes(looks_now=True)
    other = _memory.Memory(peer.pid).used_bytes(looks_now=True)
    assert a[0] == 1
    assert size * 0.4 < alone - together < size * 0.6
    assert other < together


def test_between_looks_the_share_of_the_last_one_is_assumed(peer):
    size = 64 << 20
    a = shmarray.ones(size, "u1")
    memory = _memory.Memory(os.getpid())
    before = memory.used_bytes(looks_now=True)
    memory._next_look = float("inf")
    peer.run("a = shmarray.attach(text)\na.sum()", text=str(shmarray.handle(a)))
    assert abs(memory.used_bytes() - before) < size * 0.1
    assert before - memory.used_bytes(looks_now=True) > size * 0.4
    del a


def test_a_process_that_has_ended_uses_no_memory_that_is_known():
    assert _memory.Memory(2**22 + 1).used_bytes() is None
