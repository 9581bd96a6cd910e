"""Uses the standard package with its types: checkers read it as it is, and with our package's name
in its place.

What they reveal must be the same. Nothing runs it.
"""

import ctypes
import multiprocessing
import multiprocessing as mp
import multiprocessing.pool
import multiprocessing.queues
import multiprocessing.shared_memory
import multiprocessing.sharedctypes
import multiprocessing.synchronize
import queue
from collections.abc import Iterator
from multiprocessing import (
    Array,
    Event,
    JoinableQueue,
    Lock,
    Manager,
    Pipe,
    Pool,
    Process,
    Queue,
    Value,
    active_children,
    cpu_count,
    current_process,
    get_context,
    parent_process,
)
from multiprocessing.connection import Client, Connection, Listener, wait
from multiprocessing.context import BaseContext, ForkContext, SpawnContext, SpawnProcess
from multiprocessing.managers import BaseManager, SharedMemoryManager, SyncManager, ValueProxy
from multiprocessing.pool import AsyncResult, MapResult, ThreadPool
from multiprocessing.process import BaseProcess
from multiprocessing.queues import SimpleQueue
from multiprocessing.shared_memory import ShareableList, SharedMemory
from multiprocessing.sharedctypes import Synchronized
from typing import reveal_type


def work(tasks: "Queue[int]", results: "mp.Queue[str | None]", end: "Connection[str, int]") -> None:
    reveal_type(tasks)
    reveal_type(tasks.get(timeout=3))
    reveal_type(tasks.put)
    reveal_type(results.get_nowait())
    reveal_type(end.recv())
    reveal_type(end.send)
    reveal_type(end.poll(0.5))
    reveal_type(end.recv_bytes())
    reveal_type(end.fileno())


def tasks(one: "multiprocessing.JoinableQueue[float]", other: "mp.SimpleQueue[bytes]") -> None:
    reveal_type(one.get())
    reveal_type(one.task_done())
    reveal_type(one.join())
    reveal_type(other.get())
    reveal_type(other.empty())


def square(number: int) -> float:
    return number * 0.5


def pools(pool: "multiprocessing.pool.Pool", threads: ThreadPool) -> Iterator[float]:
    reveal_type(pool.map(square, range(3)))
    reveal_type(pool.map_async(square, [1]))
    reveal_type(pool.apply(square, (3,)))
    reveal_type(pool.apply_async(square, (3,)))
    reveal_type(pool.apply_async(square, (3,)).get(timeout=1))
    reveal_type(pool.starmap(square, [(1,)]))
    reveal_type(pool.imap_unordered(square, [1], chunksize=2))
    reveal_type(threads.map(square, [1]))
    reveal_type(pool.close())
    yield from pool.imap(square, [1])


def results(one: AsyncResult[int], several: MapResult[int]) -> None:
    reveal_type(one.get())
    reveal_type(several.get())


def contexts(context: BaseContext, spawn: SpawnContext, fork: "ForkContext") -> None:
    reveal_type(context.Queue(3))
    reveal_type(context.Pipe())
    reveal_type(context.Pool(2))
    reveal_type(context.Manager())
    reveal_type(context.Lock())
    reveal_type(context.get_context())
    reveal_type(context.get_start_method())
    reveal_type(spawn.Process)
    reveal_type(spawn.Process(target=square, args=(1,), daemon=True))
    reveal_type(fork.Process)
    reveal_type(fork.get_context("fork"))
    reveal_type(get_context())
    reveal_type(get_context("spawn"))
    reveal_type(get_context("forkserver"))
    reveal_type(mp.get_context("x"[:1]))


class Worker(Process):
    def __init__(self, number: int) -> None:
        super().__init__(name=f"worker {number}", daemon=True)
        self.number = number

    def run(self) -> None:
        reveal_type(self.exitcode)


class Other(SpawnProcess):
    def run(self) -> None:
        reveal_type(self.pid)


def processes(base: BaseProcess) -> None:
    worker = Worker(3)
    reveal_type(worker.start())
    reveal_type(worker.join(3))
    reveal_type(worker.number)
    reveal_type(Process(target=square, args=(1,), kwargs={"a": 1}))
    reveal_type(base.is_alive())
    reveal_type(current_process())
    reveal_type(parent_process())
    reveal_type(active_children())
    reveal_type(cpu_count())
    other: BaseProcess = Other()
    reveal_type(other)


def synchronization(
    event: "multiprocessing.synchronize.Event", lock: "multiprocessing.synchronize.Lock"
) -> None:
    reveal_type(event.wait(1))
    reveal_type(lock.acquire(block=False))
    reveal_type(Event())
    reveal_type(Lock())
    reveal_type(mp.RLock())
    reveal_type(mp.Semaphore(2))
    reveal_type(mp.BoundedSemaphore())
    reveal_type(mp.Condition())
    reveal_type(mp.Barrier(2, action=print))
    with lock, mp.Condition(mp.Lock()) as held:
        reveal_type(held)


def values(number: "Synchronized[int]") -> None:
    reveal_type(number.value)
    reveal_type(Value(ctypes.c_double, 3.0))
    reveal_type(Value("i", 3))
    reveal_type(Value("i", 3, lock=False))
    reveal_type(Value(ctypes.c_int, 1).get_lock())
    reveal_type(Array(ctypes.c_int, 3))
    reveal_type(Array("d", [1.0]))
    reveal_type(Array(ctypes.c_char, b"abc"))
    reveal_type(mp.RawValue(ctypes.c_int, 1))
    reveal_type(mp.RawArray("i", 3))
    reveal_type(multiprocessing.sharedctypes.Value(ctypes.c_int, 1))
    reveal_type(multiprocessing.sharedctypes.RawArray(ctypes.c_int, 3))


def managers(manager: SyncManager, base: BaseManager, value: "ValueProxy[int]") -> None:
    reveal_type(manager.dict())
    reveal_type(manager.list([1, 2]))
    reveal_type(manager.Queue())
    reveal_type(manager.Namespace())
    reveal_type(manager.Value("i", 1))
    reveal_type(base.address)
    reveal_type(value.value)
    with Manager() as other, SharedMemoryManager() as memory:
        reveal_type(other)
        reveal_type(other.Event())
        reveal_type(memory.SharedMemory(3))


def connections(address: str) -> None:
    here, there = Pipe(duplex=False)
    reveal_type(here)
    reveal_type(there)
    listener = Listener(address, authkey=b"secret")
    reveal_type(listener.accept())
    reveal_type(listener.last_accepted)
    reveal_type(Client(address, "AF_UNIX"))
    reveal_type(wait([here, there], timeout=1))
    with here as held:
        reveal_type(held)


def queues() -> None:
    reveal_type(Queue())
    reveal_type(mp.Queue(3))
    reveal_type(JoinableQueue())
    reveal_type(mp.SimpleQueue())
    with Pool(2, initializer=print, initargs=(1,)) as pool:
        reveal_type(pool)
    simple: SimpleQueue[int] = mp.get_context().SimpleQueue()
    reveal_type(simple.get())
    ours: multiprocessing.queues.Queue[bytes] = mp.Queue()
    reveal_type(ours.get())


def memory() -> None:
    segment = SharedMemory(create=True, size=3)
    reveal_type(segment.buf)
    reveal_type(segment.name)
    reveal_type(ShareableList([1, 2])[0])
    reveal_type(multiprocessing.shared_memory.SharedMemory("x").size)


def package() -> None:
    reveal_type(mp.get_start_method())
    reveal_type(mp.get_start_method(allow_none=True))
    reveal_type(mp.set_start_method("spawn", force=True))
    reveal_type(mp.get_all_start_methods())
    reveal_type(mp.set_forkserver_preload(["os"]))
    reveal_type(mp.set_executable("python"))
    reveal_type(mp.freeze_support())
    reveal_type(mp.allow_connection_pickling())
    reveal_type(mp.get_logger())
    reveal_type(mp.log_to_stderr(10))
    reveal_type(mp.reducer.ForkingPickler)
    reveal_type(mp.TimeoutError())
    reveal_type(mp.ProcessError)
    reveal_type(mp.BufferTooShort)
    reveal_type(mp.AuthenticationError)
    try:
        mp.Queue().get_nowait()
    except (mp.TimeoutError, queue.Empty) as error:
        reveal_type(error)
