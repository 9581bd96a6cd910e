"""The end of an interpreter whose arrays are still in use: quiet, with status 0, and nothing stays.

The plain cases (a global, a builtin, a cycle, sys.exit …) are in test_lifetime.
"""

import pytest

PRELUDE = """
import atexit, builtins, gc, itertools, os, signal, sys, threading, weakref
import numpy as np
import shmarray

def use(array=None):
    "All that a handler may want of the library; looked up now, since modules may be gone by then."
    array = kept if array is None else array
    array += 1
    made = zeros((50, 3), name=f"late-{next(numbers)}")
    again = attach(str(handle(made[1:, ::2])), readonly=True)
    other = share(array[::-1])
    unlink(attach_name(segments(), again))
    sweep()
    uses.append((again.shape, other[0]))
    return True

def attach_name(listed, array, handle=shmarray.handle):
    return next(info.name for info in listed if info.name and info.segment == handle(array).segment)

numbers = itertools.count()
uses = []
kept = shmarray.zeros(4)
"""


def defaults(names):
    """Lines that bind the library's functions as the handler's own globals."""
    return "".join(f"{name} = shmarray.{name}\n" for name in names.split())


PRELUDE += defaults("zeros attach handle share unlink segments sweep")

HANDLERS = {
    "atexit": "atexit.register(use)",
    "atexit, registered before the library was imported": """
for module in [name for name in sys.modules if name.partition(".")[0] == "shmarray"]:
    del sys.modules[module]
atexit.register(use)
import shmarray
""",
    "weakref.finalize at exit": "weakref.finalize(kept, use, shmarray.zeros(4))",
    "weakref.finalize of a view": "view = kept[::2]; weakref.finalize(view, use, view)",
    "__del__ of a global": """
class Late:
    def __del__(self, use=use, array=shmarray.zeros(4)):
        use(array)
late = Late()
""",
    "__del__ of a builtin": """
class Late:
    def __del__(self, use=use, array=shmarray.zeros(4)):
        use(array)
builtins.late = Late()
""",
    "__del__ in a cycle": """
class Late:
    def __init__(self):
        self.array = shmarray.zeros((4, 5))
        self.views = [self.array[1:], self.array.T, memoryview(self.array)]
        self.me = self
    def __del__(self, use=use):
        use(self.views[1][0])
gc.disable()
Late()
""",
    "__del__ in a module": """
class Late:
    def __del__(self, use=use, array=shmarray.zeros(4)):
        use(array)
sys.modules["late"] = Late()
""",
    "a generator that is never finished": """
def generate(array, use=use):
    try:
        yield array
    finally:
        use(array)
generator = generate(shmarray.zeros(4))
next(generator)
""",
    "a coroutine that is never finished": """
async def wait(array, use=use):
    try:
        await Never()
    finally:
        use(array)
class Never:
    def __await__(self):
        yield
coroutine = wait(shmarray.zeros(4))
coroutine.send(None)
""",
    "threading's own end": "threading._register_atexit(use)",
    "a thread's local": """
class Late:
    def __del__(self, use=use, array=shmarray.zeros(4)):
        use(array)
local = threading.local()
local.late = Late()
""",
    "the end of stdout": """
class Late:
    def __init__(self, stream, use=use):
        self.stream, self.use, self.array = stream, use, shmarray.zeros(4)
    def __getattr__(self, name):
        return getattr(self.stream, name)
    def flush(self):
        self.use(self.array)
        self.stream.flush()
sys.stdout = Late(sys.stdout)
""",
    "a signal's handler": (
        "signal.signal(signal.SIGTERM, lambda *_: use()); atexit.register(os.kill, os.getpid(), 15)"
    ),
}
# A handler reports by an fd: nothing else of the interpreter may be left then.
TELLS = """
use_it = use
def use(array=None, use_it=use_it, write=os.write):
    use_it(array)
    write(report, b".")
report = os.dup(1)
"""


@pytest.mark.parametrize("code", HANDLERS.values(), ids=HANDLERS)
def test_exit_handlers_may_use_arrays_and_the_library(code, run_python, files):
    assert set(run_python(PRELUDE + TELLS + code)) == {"."}
    assert files() == []


HOLDERS = {
    "views of views": "views = [kept[i:][::-1].reshape(1, -1).T for i in range(4)]",
    "memoryviews": (
        "views = [memoryview(kept), memoryview(kept).cast('B'), memoryview(kept)[::2]]; "
        "kept.fill(1)"
    ),
    "a buffer of another library": """
import ctypes
buffers = [(ctypes.c_char * kept.nbytes).from_buffer(kept), np.frombuffer(memoryview(kept), "u1")]
""",
    "an iterator and a broadcast": (
        "iterators = [np.nditer(kept), kept.flat, np.broadcast(kept, kept), iter(kept)]"
    ),
    "a structured view": (
        "fields = shmarray.zeros(4, [('x', 'f8'), ('y', 'i4', (2,))])['y']; record = fields[1:]"
    ),
    "cycles of arrays and views": """
class Node: pass
for _ in range(20):
    one, two = Node(), Node()
    one.other, two.other = two, one
    one.array, two.array = shmarray.zeros(4), kept[1:]
gc.disable()
""",
    "a frozen heap": (
        "nodes = [shmarray.zeros(4) for _ in range(20)]; nodes.append(nodes); gc.freeze()"
    ),
    "a class and its default": """
class Holder:
    array = shmarray.zeros(4)
    def method(self, array=shmarray.zeros(4)): pass
""",
    "a closure in a registry of the interpreter": """
import copyreg, codecs
codecs.register_error("late", lambda error, array=shmarray.zeros(4): array)
sys.setprofile(lambda *_, array=shmarray.zeros(4): None)
sys.excepthook = lambda *_, array=shmarray.zeros(4): None
""",
    "an exception that was caught": """
def fail(array):
    raise ValueError(array)
try:
    fail(shmarray.zeros(4))
except ValueError as error:
    caught = error
""",
    "a context variable": """
import contextvars
variable = contextvars.ContextVar("variable", default=shmarray.zeros(4))
variable.set(shmarray.zeros(4))
""",
    "arrays by the hundred": "arrays = [shmarray.zeros(4, name=f'n{i}') for i in range(300)]",
    "an array that was unlinked": (
        "named = shmarray.zeros(4, name='named'); shmarray.unlink('named')"
    ),
}


@pytest.mark.parametrize("code", HOLDERS.values(), ids=HOLDERS)
def test_arrays_held_at_the_exit_are_given_back_quietly(code, run_python, files):
    assert run_python(PRELUDE + code) == ""
    assert files() == []


THREADS = {
    "a non-daemon thread that outlives the main program": """
def work():
    threading.main_thread().join()
    use()
threading.Thread(target=work).start()
""",
    "daemon threads that make and drop": """
def work():
    while True:
        array = shmarray.zeros(100)
        rounds.release()
""",
    "daemon threads that take handles": """
def work():
    while True:
        texts = [str(handle(kept[i:])) for i in range(4)]
        rounds.release()
""",
    "daemon threads that attach and take views": """
def work(text=str(shmarray.handle(kept))):
    while True:
        views = [attach(text)[i:] for i in range(4)]
        rounds.release()
""",
    "daemon threads that copy": """
large = np.ones(1 << 20)
def work():
    while True:
        array = shmarray.share(large)
        rounds.release()
""",
    "daemon threads that give back much": """
def work():
    while True:
        array = shmarray.zeros(8 << 20, "u1")
        del array
        rounds.release()
""",
    "daemon threads that add": """
large = shmarray.ones(1 << 20)
def work():
    while True:
        np.add(large, 1, out=large)
        rounds.release()
""",
    "daemon threads that list and sweep": """
def work():
    while True:
        shmarray.segments(), shmarray.sweep()
        rounds.release()
""",
    "an executor with work in hand": """
import concurrent.futures
executor = concurrent.futures.ThreadPoolExecutor(2)
futures = [executor.submit(shmarray.zeros, 1000) for _ in range(200)]
""",
    "a timer that never fires": (
        "timer = threading.Timer(1e6, use); timer.daemon = True; timer.start()"
    ),
}
# Main goes on to its end when each of two such threads has been round three times.
STARTS = """
if "rounds" in work.__code__.co_names:
    for _ in range(2):
        threading.Thread(target=work, daemon=True).start()
    for _ in range(6):
        rounds.acquire()
"""


@pytest.mark.parametrize("code", THREADS.values(), ids=THREADS)
def test_threads_may_use_arrays_to_the_end(code, run_python, files):
    starts = STARTS if "while True" in code else ""
    for _ in range(5):
        assert run_python(PRELUDE + "rounds = threading.Semaphore(0)\n" + code + starts) == ""
        assert files() == []


def test_an_uncaught_exception_is_all_that_is_said(start_python, files):
    fails = "def fail(array):\n    raise ValueError(7)\nfail(array)"
    said = []
    for before in (
        PRELUDE.count("\n") * "\n" + "array = 4\n",
        PRELUDE + "array = shmarray.zeros(4)\n",
    ):
        program = start_python(before + fails)
        assert program.status() == 1
        said.append(program.said_on_stderr())
    assert said[0].endswith("\nValueError: 7\n")
    assert said[1] == said[0]  # Python prints this by itself
    assert files() == []
