"""A segment stays while any array over it lives, in any process, and no longer."""

import gc

import numpy as np
import pytest

import shmarray


def test_a_view_outlives_its_array_and_the_segment_goes_with_the_last_one(files):
    a = shmarray.array(np.arange(12).reshape(3, 4))
    view = a[1:, ::2].T
    last = view[0]
    del a, view
    gc.collect()
    assert len(files()) == 1
    assert last.tolist() == [4, 8]
    del last
    assert files() == []


def test_the_base_is_the_hold_and_keeps_the_memory(files):
    a = shmarray.ones(3)
    hold = a.base
    del a
    assert len(files()) == 1
    assert np.frombuffer(hold, float, 3).tolist() == [1, 1, 1]
    del hold
    assert files() == []


def test_a_memoryview_keeps_the_memory(files):
    view = memoryview(shmarray.ones(3, "u1"))
    gc.collect()
    assert (len(files()), view.tolist()) == (1, [1, 1, 1])
    view.release()
    assert files() == []


def test_other_threads_run_while_much_is_given_back(peer, lets_others_run, files):
    text = peer.run("a = shmarray.zeros(8 << 20, 'u1'); answer = str(shmarray.handle(a))")
    assert lets_others_run(lambda: shmarray.attach(text))
    again = shmarray.attach(text)
    assert not lets_others_run(lambda: shmarray.attach(text))  # it is not the last
    peer.leave()
    del again
    assert files() == []


def test_a_name_goes_with_its_array(files):
    a = shmarray.zeros(3, name="series")
    assert len(files()) == 2
    del a
    assert files() == []


def test_an_unlinked_array_lives_on_and_its_name_is_free():
    a = shmarray.full(3, 1, name="series")
    shmarray.unlink("series")
    b = shmarray.full(3, 2, name="series")
    assert (a.tolist(), shmarray.attach("series").tolist()) == ([1, 1, 1], [2, 2, 2])
    assert shmarray.handle(a) != shmarray.handle(b)


def test_a_handle_keeps_nothing(files):
    handle = shmarray.handle(shmarray.zeros(3))
    assert files() == []
    with pytest.raises(FileNotFoundError, match=handle.segment.split(".")[0]):
        shmarray.attach(handle)


def test_an_array_in_a_reference_cycle_goes_with_the_cycle(files):
    class Node:
        def __init__(self):
            self.array = shmarray.zeros(3)
            self.me = self

    Node()
    assert len(files()) >= 1
    gc.collect()
    assert files() == []


def test_an_array_of_a_dead_thread_of_exceptions_is_not_kept(files):
    def fail(array):
        raise RuntimeError(len(array))

    with pytest.raises(RuntimeError):
        fail(shmarray.zeros(3))
    gc.collect()
    assert files() == []


EXITS = {
    "a global": "a = shmarray.zeros(3)",
    "a read-only one": (
        "a = shmarray.zeros(3); b = shmarray.attach(shmarray.handle(a), readonly=True)"
    ),
    "a name": "a = shmarray.zeros(3, name='series')",
    "a builtin": "import builtins; builtins.kept = shmarray.zeros(3)",
    "a module": "sys.modules['kept'] = shmarray.zeros(3)",
    "a cycle": "c = [shmarray.zeros(3)]; c.append(c)",
    "an atexit function": "import atexit; atexit.register(lambda a: a.fill(1), shmarray.zeros(3))",
    "a finalizer": """
class Late:
    def __del__(self):
        a = shmarray.zeros(3)
        assert shmarray.attach(shmarray.handle(a)).shape == (3,)
late = Late()
""",
    "an exit from within": "a = shmarray.zeros(3); sys.exit(0)",
}


@pytest.mark.parametrize("code", EXITS.values(), ids=EXITS)
def test_an_interpreter_exits_quietly_with_live_arrays_and_gives_them_back(code, run_python, files):
    assert run_python(f"import sys, shmarray\n{code}") == ""
    assert files() == []


ABRUPT = {
    "os._exit": "a = shmarray.zeros(3); os._exit(0)",
    "a daemon thread": """
import threading
running = threading.Event()
def stay(array):
    running.set()
    threading.Event().wait()
threading.Thread(target=stay, args=(shmarray.zeros(3),), daemon=True).start()
running.wait()
""",
}


@pytest.mark.parametrize("code", ABRUPT.values(), ids=ABRUPT)
def test_memory_left_by_an_abrupt_exit_is_given_back_at_the_next_use(code, run_python, files):
    assert run_python(f"import os, shmarray\n{code}") == ""
    run_python("import shmarray; shmarray.zeros(1)")
    assert files() == []
