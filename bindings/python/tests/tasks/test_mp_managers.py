"""Managers' proxies move arrays by handle, of every type and under every start method."""

import multiprocessing.managers
import pickle
import signal

import numpy as np
import pytest

import shmarray
import shmarray.multiprocessing as mp
from process_work import FrameManager, use_proxies
from shmarray.multiprocessing.managers import BaseProxy, MakeProxyType, SyncManager
from working import sweep_after_deaths


@pytest.fixture(autouse=True)
def swept():
    """Reclaims what ended processes held."""
    yield
    sweep_after_deaths()


@pytest.fixture
def manager(context):
    """A manager that has started."""
    with context.Manager() as manager:
        yield manager


def test_a_proxy_hands_out_the_memory_that_was_put_in(manager):
    shared = shmarray.zeros((3, 50_000))
    frames = manager.list([shared[0], shared[1]])
    before = shmarray.copied_bytes()
    frames.append(shared[2])
    frames[2][5] = 7
    assert (shared[2, 5], len(frames), shmarray.copied_bytes() - before) == (7, 3, 0)
    private = np.ones(50_000)
    frames[0] = private
    frames[0][:] = 5
    assert (frames[0].sum(), private.sum(), shared[0].sum()) == (50_000, 50_000, 0)


def test_a_process_uses_proxies(manager):
    context = manager._ctx
    frames = manager.list([shmarray.zeros(50_000)])
    facts = manager.dict()
    queue = manager.Queue()
    event = manager.Event()
    barrier = manager.Barrier(2)
    lock = manager.Lock()
    process = context.Process(target=use_proxies, args=(frames, facts, queue, event, barrier, lock))
    process.start()
    barrier.wait()
    assert (frames[0][0], facts["sum"], queue.get()[0]) == (3, 150_000, 4)
    event.set()
    process.join()
    assert process.exitcode == 0


def test_every_type_of_the_standard_manager_is_there():
    names = multiprocessing.managers.SyncManager._registry
    assert len(names) > 10
    assert SyncManager._registry.keys() == names.keys()
    with mp.get_context("fork").Manager() as manager:
        made = {
            "Array": manager.Array("i", [1, 2]),
            "Value": manager.Value("i", 5),
            "Namespace": manager.Namespace(frame=np.arange(3)),
            "Condition": manager.Condition(),
            "RLock": manager.RLock(),
            "Semaphore": manager.Semaphore(2),
            "BoundedSemaphore": manager.BoundedSemaphore(2),
            "JoinableQueue": manager.JoinableQueue(),
        }
        assert all(isinstance(proxy, BaseProxy) for proxy in made.values())
        assert made["Namespace"].frame.tolist() == [0, 1, 2]
        assert (made["Array"][1], made["Value"].value) == (2, 5)


def test_a_manager_of_the_users_hands_out_what_its_server_holds(context, files):
    with FrameManager(ctx=context) as manager:
        frames = manager.Frames(3)
        frames.frame(1)[:] = 2
        assert frames.total() == 100_000
        proxy = frames.frame(1)
        del frames
    assert proxy[0] == 2
    del proxy
    sweep_after_deaths()
    assert files() == []


def test_a_client_with_address_and_key_can_connect():
    with FrameManager(authkey=b"secret") as manager:
        frames = manager.Frames(1)
        other = FrameManager(address=manager.address, authkey=b"secret")
        other.connect()
        assert other.Frames(2).total() == frames.total() == 0
        with pytest.raises(mp.AuthenticationError):
            FrameManager(address=manager.address, authkey=b"wrong").connect()


def test_a_manager_over_tcp_carries_arrays_in_band():
    with FrameManager(address=("127.0.0.1", 0), authkey=b"secret") as manager:
        frames = manager.Frames(1)
        frames.frame(0)[:] = 1
        assert frames.total() == 0


def test_memory_of_a_killed_manager_is_given_back(files):
    manager = mp.get_context("fork").Manager()
    frames = manager.list([np.zeros(50_000)])
    proxy = frames[0]
    manager._process.kill()
    manager._process.join()
    with pytest.raises((EOFError, ConnectionError)):
        frames[0]
    proxy[0] = 1
    del proxy
    sweep_after_deaths()
    assert files() == []
    assert manager._process.exitcode == -signal.SIGKILL


def test_a_proxy_is_pickled_for_who_has_the_key():
    Proxy = MakeProxyType("Proxy", ("frame",))  # noqa: N806
    assert issubclass(Proxy, BaseProxy)
    with mp.Manager() as manager:
        numbers = manager.list([1, 2])
        assert pickle.loads(pickle.dumps(numbers))[1] == 2
