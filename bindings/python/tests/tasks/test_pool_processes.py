"""Workers when processes end in any order, and the state that imports leave unchanged."""

import json
import os
import signal

import pytest

from processes import Life
from working import METHODS, sweep_after_deaths

pytestmark = pytest.mark.usefixtures("path")

PRELUDE = """
import json, os, signal, sys, threading, time, warnings
warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
# The standard pool warns, too.
warnings.filterwarnings("ignore", "unclosed running multiprocessing pool", ResourceWarning)
import shmarray, shmarray.concurrent
import shmarray.multiprocessing as mp
import tasks

def say(what):
    print(json.dumps(what), flush=True)

context = mp.get_context(sys.argv[1])
"""

STARTS = {
    "a pool": (
        "pool = context.Pool(2); pool.map(tasks.square, range(8)); pids = [w.pid for w in "
        "pool._pool]"
    ),
    "an executor": """
pool = shmarray.concurrent.ProcessPoolExecutor(2, context)
list(pool.map(tasks.square, range(8)))
pids = [*pool._processes]
""",
}


ENDS = {
    "idle workers": "",
    "tasks at work": (
        "pool.imap(time.sleep, [1000] * 10) if hasattr(pool, 'imap') else "
        "pool.submit(time.sleep, 0.1)"
    ),
    "tasks that wait": """
if hasattr(pool, "imap"):
    results = [pool.apply_async(time.sleep, (1000,)) for _ in range(20)]
else:
    futures = [pool.submit(tasks.large, number) for number in range(20)]
""",
    "an iterable that never ends": """
def numbers():
    while True:
        yield 1
if hasattr(pool, "imap"):
    results = pool.imap(abs, numbers())
    next(results)
else:
    results = pool.map(tasks.large, range(5))
""",
    "results that nobody asked for": (
        "results = getattr(pool, 'map_async', pool.map)(tasks.large, range(4))"
    ),
    "a worker that was killed": "os.kill(pids[0], 9)",
    "an exception": "sys.exit(0)",
    "an end that is not its own": "threading.Thread(target=time.sleep, args=(0.01,)).start()",
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("code", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_an_interpreter_ends_quietly_with_a_pool_that_lives(start, code, method, run_python, files):
    assert run_python(PRELUDE + start + "\n" + code, method) == ""
    sweep_after_deaths()
    assert files() == []


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_workers_leave_when_their_parent_is_killed(start, method, start_python, files):
    program = start_python(PRELUDE + start + "\nsay(pids); os.read(0, 1)", method)
    lives = [Life(pid) for pid in program.hear()]
    os.kill(program.process.pid, signal.SIGKILL)
    assert program.status() == -signal.SIGKILL
    for life in lives:
        life.wait()
    sweep_after_deaths()
    assert files() == []


FORKS = """
child = os.fork()
if child == 0:
    say(pids)
    os.read(0, 1)
    os._exit(0)
signal.pause()
"""


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_workers_leave_though_a_child_of_their_parent_lives(start, start_python):
    program = start_python(PRELUDE + start + FORKS, "fork")
    lives = [Life(pid) for pid in program.hear()]
    os.kill(program.process.pid, signal.SIGKILL)
    program.status()
    for life in lives:
        life.wait()
    program.go()


TWO_POOLS = """
pools = [context.Pool(2) for _ in range(3)]
for pool in pools:
    pool.map(tasks.square, range(8))
say([[w.pid for w in pool._pool] for pool in pools])
os.read(0, 1)
pools[0].terminate()
os._exit(0)
"""


def test_workers_of_several_pools_know_nothing_of_each_other(start_python):
    program = start_python(PRELUDE + TWO_POOLS, "fork")
    lives = [Life(pid) for pids in program.hear() for pid in pids]
    program.go()
    for life in lives:
        life.wait()
    assert program.status() == 0


WAITS = """
signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the shell had it ignored
try:
    say(pids)
    os.read(0, 1)
    signal.pause()
except KeyboardInterrupt:
    if hasattr(pool, "imap"):
        say(pool.map(tasks.square, range(4)))
    else:
        say(pool.submit(tasks.square, 2).result())
"""


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_ctrl_c_ends_no_worker_that_waits(start, start_python):
    before = "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    program = start_python(PRELUDE + before + start + WAITS, "fork", start_new_session=True)
    program.hear()
    os.killpg(program.process.pid, signal.SIGINT)
    assert program.hear() in ([0, 1, 4, 9], 4)
    assert (program.status(), program.said_on_stderr()) == (0, "")


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_ctrl_c_ends_no_worker_that_begins(start, start_python):
    before = "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    before += "os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGINT))\n"
    program = start_python(PRELUDE + before + start + "\nsay(len(pids))", "fork")
    assert program.hear() in (1, 2)
    assert (program.status(), program.said_on_stderr()) == (0, "")


WORKS = """
signal.signal(signal.SIGINT, signal.default_int_handler)
with shmarray.concurrent.ProcessPoolExecutor(1, context) as pool:
    gate = tasks.Gate(sys.argv[2])
    future = pool.submit(gate.pass_through)
    say(gate.next_arrival())
    try:
        future.result()
    except KeyboardInterrupt:
        say("interrupted")
"""


def test_ctrl_c_ends_a_task(start_python, tmp_path):
    program = start_python(PRELUDE + WORKS, "fork", tmp_path)
    os.kill(program.hear(), signal.SIGINT)
    assert program.hear() == "interrupted"
    assert (program.status(), program.said_on_stderr()) == (0, "")


EXAMPLES = """
import doctest, importlib
print(doctest.testmod(importlib.import_module(sys.argv[2])))
"""


@pytest.mark.parametrize(
    "module", ["shmarray.multiprocessing.pool", "shmarray.concurrent.process", "shmarray.joblib"]
)
def test_the_examples_of_the_documentation_run(module, run_python):
    said = run_python(PRELUDE + EXAMPLES, "fork", module)
    assert said.startswith("TestResults(failed=0, attempted=")
    assert not said.endswith("attempted=0)")


IMPORTS = """
import copyreg, json, multiprocessing, os, pickle, sys, threading, types
import concurrent.futures.process, concurrent.futures.thread
import multiprocessing.connection, multiprocessing.managers, multiprocessing.pool
import multiprocessing.popen_fork, multiprocessing.popen_spawn_posix, multiprocessing.queues
import multiprocessing.sharedctypes, multiprocessing.spawn, numpy

PACKAGES = ("concurrent", "copyreg", "multiprocessing", "os", "pickle", "threading")

def looks():
    "The names in those modules and their classes. A package gets modules as they are imported."
    found = {}
    for name, module in [*sys.modules.items()]:
        if name.partition(".")[0] in PACKAGES:
            for owner in [module, *(one for one in vars(module).values() if isinstance(one, type))]:
                for key, value in vars(owner).items():
                    if not isinstance(value, types.ModuleType) and not key.startswith("__"):
                        what = list(value) if type(value) in (dict, list, set) else None
                        place = f"{name} {getattr(owner, '__qualname__', '')} {key}"
                        found[place] = id(value), str(what)
    return found

before = looks()
import shmarray.concurrent, shmarray.multiprocessing.pool
after = looks()
changed = sorted(key for key in before if after.get(key) != before[key])
print(json.dumps([len(before), changed, multiprocessing.get_start_method(allow_none=True)]))
"""


def test_imports_change_nothing_in_the_standard_modules(run_python):
    count, changed, method = json.loads(run_python(IMPORTS))
    assert count > 1000
    assert (changed, method) == ([], None)
