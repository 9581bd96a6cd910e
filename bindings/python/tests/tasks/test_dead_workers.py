"""Workers end by os._exit, by a signal and by Ctrl-C, and those who outlive them have their memory
back, unasked.

At any time after a create, a receive, a pool's end and a worker's replacement there is no more than
what the living hold, their pools, and what one worker held. Each test is a program of its own under
a watchdog.
"""

import pytest

import dead_work
import shmarray
from processes import interrupt, run_to_the_end, started
from working import METHODS, sweep_after_deaths

PRELUDE = """
import os, signal, sys, warnings
warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
import shmarray, shmarray.concurrent
import shmarray.multiprocessing as mp
import dead_work
from dead_work import check, use, used

context = mp.get_context(sys.argv[1])
"""


@pytest.fixture(autouse=True)
def surroundings(monkeypatch, path):  # noqa: ARG001 (the environment)
    """Programs find the work, and pools have room for more than the dead would leave."""
    monkeypatch.setenv("SHMARRAY_POOL_BYTES", str(1 << 30))
    yield
    sweep_after_deaths()


def start(code, *arguments):
    return started(PRELUDE + code, *arguments)


def run(code, *arguments):
    run_to_the_end(PRELUDE + code, *arguments)


SUPERVISOR = """
use()
own = used()
for number in range(int(sys.argv[2])):
    worker = context.Process(target=dead_work.work)
    worker.start()
    worker.join()
    use()
    check(own, 1, f"after worker {number} and an array of the supervisor's")
"""
# A start by spawn or forkserver takes a hundred times as long as one by fork.
WORKERS = {"fork": 60, "forkserver": 12, "spawn": 6}


@pytest.mark.parametrize("method", METHODS)
def test_a_supervisors_array_takes_the_memory_of_dead_workers_back(method):
    run(SUPERVISOR, method, WORKERS[method])


KILLED = """
use()
own = used()
for number in range(int(sys.argv[2])):
    begun, wait = dead_work.have_begun(1)
    worker = context.Process(target=dead_work.work_until_interrupted, args=(begun, 0))
    worker.start()
    wait()
    os.kill(worker.pid, signal.SIGKILL)
    worker.join()
    del wait
    use()
    check(own, 1, f"after worker {number}, which was killed, and an array of the supervisor's")
"""


@pytest.mark.parametrize("method", METHODS)
def test_a_supervisors_array_takes_the_memory_of_killed_workers_back(method):
    run(KILLED, method, WORKERS[method])


RECEIVER = """
queue = context.Queue()
use()
own = used()
for number in range(int(sys.argv[2])):
    worker = context.Process(target=dead_work.work_and_put, args=(queue, number))
    worker.start()
    worker.join()
    result = queue.get()
    assert result[0] == result[-1] == number % 100
    del result
    check(own, 1, f"after worker {number} and the receive of what it sent")
"""


@pytest.mark.parametrize("method", METHODS)
def test_a_receive_takes_the_memory_of_dead_workers_back(method):
    run(RECEIVER, method, WORKERS[method])


FORKED_SUPERVISOR = f"""
use()
child = os.fork()
if child == 0:
    try:{"".join(f"        {line}" + chr(10) for line in SUPERVISOR.splitlines())}
        os._exit(0)
    except SystemExit as error:
        print(error, file=sys.stderr)
    finally:
        os._exit(1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_supervisors_array_takes_the_memory_of_dead_workers_back():
    run(FORKED_SUPERVISOR, "fork", WORKERS["fork"])


REPLACED = """
use()
own = used()
with context.Pool(2, maxtasksperchild=1) as pool:
    for number in range(int(sys.argv[2])):
        result = pool.apply(dead_work.work_and_return, (number,))
        assert result[0] == number % 100
        del result
        check(own, 4, f"after task {number} of a pool of two that replaces its workers")
    pool.close()
    pool.join()
check(own, 1, "after the pool's end")
"""
TASKS = {"fork": 40, "forkserver": 12, "spawn": 8}


@pytest.mark.parametrize("method", METHODS)
def test_a_pool_that_replaces_its_workers_has_their_memory_back(method):
    run(REPLACED, method, TASKS[method])


ONE_AFTER_THE_OTHER = {
    "pools that are closed": """
    with context.Pool(2) as pool:
        assert pool.map(dead_work.work, range(4)) == [0, 1, 2, 3]
        pool.close()
        pool.join()
""",
    "pools that are terminated": """
    with context.Pool(2) as pool:
        assert pool.map(dead_work.work, range(4)) == [0, 1, 2, 3]
""",
    "executors": """
    with shmarray.concurrent.ProcessPoolExecutor(2, context) as executor:
        assert list(executor.map(dead_work.work, range(4))) == [0, 1, 2, 3]
""",
    "executors with results": """
    with shmarray.concurrent.ProcessPoolExecutor(2, context) as executor:
        results = executor.map(dead_work.work_and_return, range(4))
        assert [result[0] for result in results] == [0, 1, 2, 3]
""",
}
POOLS = {"fork": 20, "forkserver": 6, "spawn": 4}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("code", ONE_AFTER_THE_OTHER.values(), ids=ONE_AFTER_THE_OTHER)
def test_pools_one_after_the_other_leave_nothing_to_the_next(code, method):
    program = f"use()\nown = used()\nfor number in range(int(sys.argv[2])):{code}    "
    run(program + "check(own, 1, f'after the end of pool {number}')\n", method, POOLS[method])


INTERRUPTED = {
    "a pool": """
pool = context.Pool(2)
work = dead_work.work_until_interrupted
results = [pool.apply_async(work, (begun, number)) for number in range(2)]
""",
    "an executor": """
executor = shmarray.concurrent.ProcessPoolExecutor(2, context)
results = [executor.submit(dead_work.work_until_interrupted, begun, number) for number in range(2)]
""",
    "processes": """
dead_work.work()
work = dead_work.work_until_interrupted
workers = [context.Process(target=work, args=(begun, number)) for number in range(2)]
[worker.start() for worker in workers]
""",
}
WAITS = """
wait()
print("waiting", flush=True)
signal.pause()
"""


@pytest.mark.parametrize("method", ["fork", "forkserver"])
@pytest.mark.parametrize("code", INTERRUPTED.values(), ids=INTERRUPTED)
def test_programs_that_are_interrupted_leave_at_most_what_one_worker_held(code, method, files):
    """Ctrl-C reaches all processes of a program at once."""
    for _ in range(4):
        program = start("begun, wait = dead_work.have_begun(2)\n" + code + WAITS, method)
        assert program.stdout.readline() == "waiting\n", program.stderr.read()
        interrupt(program)
        assert dead_work.used() <= dead_work.ONE, files()
    shmarray.sweep()
    assert files() == []
