"""shmarray.multiprocessing has every name of the standard module, and changes nothing of it."""

import contextlib
import doctest
import functools
import importlib
import inspect
import json
import multiprocessing
import sys
import types
from pathlib import Path

import pytest

import shmarray.multiprocessing as mp
from shmarray.multiprocessing import connection, managers, queues

MODULES = [
    "",
    ".pool",
    ".connection",
    ".managers",
    ".queues",
    ".synchronize",
    ".context",
    ".process",
    ".sharedctypes",
]
MODULES += [".reduction", ".forkserver"]
THE_SAME = [
    "dummy",
    "heap",
    "process",
    "resource_sharer",
    "resource_tracker",
    "shared_memory",
    "spawn",
]
THE_SAME += ["synchronize", "util"]


def public_names(module):
    """Returns its public names, and what it defines under a public name."""

    def is_its_own(name, value):
        if name.startswith("_") or isinstance(value, types.ModuleType):
            return False
        return getattr(value, "__module__", module.__name__) == module.__name__

    return sorted(
        {
            *module.__all__,
            *(name for name, value in vars(module).items() if is_its_own(name, value)),
        }
    )


@pytest.mark.parametrize("name", MODULES)
def test_every_public_name_of_the_standard_module_is_there(name):
    standard = importlib.import_module("multiprocessing" + name)
    ours = importlib.import_module("shmarray.multiprocessing" + name)
    names = public_names(standard)
    assert len(names) >= 3
    assert [name for name in names if not hasattr(ours, name)] == []
    assert set(standard.__all__) <= set(ours.__all__)
    assert [name for name in ours.__all__ if not hasattr(ours, name)] == []


@pytest.mark.parametrize("name", [*MODULES, *(f".{one}" for one in THE_SAME)])
def test_a_star_import_gives_every_name_that_the_standard_module_gives(name):
    ours = {}
    standard = {}
    exec(f"from shmarray.multiprocessing{name} import *", ours)
    exec(f"from multiprocessing{name} import *", standard)
    assert ours.keys() - {"__builtins__"} >= standard.keys() - {"__builtins__"}


def test_every_module_of_the_package_can_be_imported_and_says_what_it_has():
    for path in Path(mp.__file__).parent.glob("*.py"):
        module = importlib.import_module(f"shmarray.multiprocessing.{path.stem}")
        assert [name for name in module.__all__ if not hasattr(module, name)] == []


def test_the_package_has_only_modules_that_the_standard_package_has():
    standard = Path(multiprocessing.__file__).parent
    ours = {path.name for path in Path(mp.__file__).parent.glob("*.py")}
    assert ours - {path.name for path in standard.rglob("*.py")} - {"dummy.py"} == set()


def test_a_star_import_of_the_executors_gives_what_the_standard_one_gives():
    ours = {}
    standard = {}
    exec("from shmarray.concurrent import *", ours)
    exec("from concurrent.futures import *", standard)
    assert ours.keys() >= standard.keys()


def test_the_package_has_no_public_name_of_its_own():
    def names(package):
        return {
            name
            for name in vars(package)
            if name[0] != "_" and not inspect.ismodule(getattr(package, name))
        }

    assert names(mp) == names(multiprocessing)


def callables(module):
    """Returns its public functions, classes and methods, by the names that lead to them."""
    for name in public_names(module):
        value = getattr(module, name)
        methods = dir(value) if isinstance(value, type) else []
        yield from [(name,), *((name, method) for method in methods if method[0] != "_")]


def parameters(path, module):
    """Names and kinds of what it takes, and whether it may be left out; None where Python does not
    know.
    """
    value = functools.reduce(getattr, path, module)
    with contextlib.suppress(TypeError, ValueError):
        signature = inspect.signature(value)
        return [
            (one.name, one.kind, one.default is not one.empty)
            for one in signature.parameters.values()
        ]


@pytest.mark.parametrize("name", MODULES)
def test_everything_takes_what_the_standard_one_takes(name):
    standard = importlib.import_module("multiprocessing" + name)
    ours = importlib.import_module("shmarray.multiprocessing" + name)
    paths = list(callables(standard))
    assert len(paths) >= 3
    expected = {path: parameters(path, standard) for path in paths}
    if name == ".queues":  # contexts call it; ours may be without one
        for kind in ("JoinableQueue", "Queue", "SimpleQueue"):
            *others, (ctx, how, _) = expected[kind,]
            expected[kind,] = [*others, (ctx, how, True)]
    for path in paths:
        if path[-1] == "Pool" and name in ("", ".context", ".pool"):
            expected[path] = [*expected[path], ("allocator", inspect.Parameter.KEYWORD_ONLY, True)]
    assert {path: parameters(path, ours) for path in paths} == expected


@pytest.mark.parametrize("name", THE_SAME)
def test_a_module_without_anything_of_ours_is_the_standard_one(name):
    ours = importlib.import_module(f"shmarray.multiprocessing.{name}")
    assert ours is importlib.import_module(f"multiprocessing.{name}")
    assert getattr(mp, name) is ours


def test_our_classes_are_taken_for_the_standard_ones():
    here, there = mp.Pipe()
    assert isinstance(here, multiprocessing.connection.Connection)
    assert isinstance(mp.Queue(), multiprocessing.queues.Queue)
    assert isinstance(mp.JoinableQueue(), multiprocessing.queues.JoinableQueue)
    assert isinstance(mp.SimpleQueue(), multiprocessing.queues.SimpleQueue)
    assert isinstance(mp.Process(), multiprocessing.process.BaseProcess)
    assert isinstance(mp.get_context("spawn"), multiprocessing.context.BaseContext)
    assert issubclass(mp.TimeoutError, multiprocessing.TimeoutError)
    assert (type(here), type(there)) == (connection.Connection,) * 2


def test_managers_are_of_our_contexts_and_connections():
    assert managers.connection is connection
    assert managers.SyncManager.__module__ == "shmarray.multiprocessing.managers"
    assert managers.listener_client["pickle"] == (connection.Listener, connection.Client)


def test_a_queue_can_be_subscribed_in_every_python():
    assert str(queues.Queue[int]).endswith("queues.Queue[int]")
    assert str(queues.JoinableQueue[int]).endswith("queues.JoinableQueue[int]")
    assert str(queues.SimpleQueue[int]).endswith("queues.SimpleQueue[int]")


@pytest.mark.parametrize("name", ["", ".connection", ".queues"])
def test_the_examples_in_docstrings_run(name):
    module = importlib.import_module("shmarray.multiprocessing" + name)
    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL)
    assert result.failed == 0
    assert result.attempted > 0


CHANGES_NOTHING = """
import importlib, json, pkgutil, sys
import multiprocessing, multiprocessing.reduction, multiprocessing.managers

for module in pkgutil.walk_packages(multiprocessing.__path__, "multiprocessing."):
    if "win32" not in module.name:
        importlib.import_module(module.name)
names = [name for name in sys.modules if name.split(".")[0] == "multiprocessing"]
modules = [sys.modules[name] for name in names]
assert len(modules) > 15

def now():
    facts = {}
    for module in modules:
        facts |= {(module.__name__, name): id(value) for name, value in vars(module).items()}
    reducers = multiprocessing.reduction.ForkingPickler._extra_reducers
    facts["reducers"] = [(str(kind), id(reduce)) for kind, reduce in reducers.items()]
    facts["listeners"] = sorted(multiprocessing.managers.listener_client)
    facts["start method"] = multiprocessing.get_start_method(allow_none=True)
    facts["types"] = [id(kind) for kind in vars(multiprocessing.context.BaseContext).values()]
    return facts

before = now()
import shmarray.multiprocessing as mp
from shmarray.multiprocessing import connection, managers, pool, queues, sharedctypes
assert now() == before, "by importing"

def work(queue, answers, array):
    standard = multiprocessing.get_start_method(allow_none=True)
    answers.put((queue.get(), array.sum(), standard, mp.get_start_method()))

if __name__ == "__main__":
    import numpy
    said = []
    for method in mp.get_all_start_methods():
        context = mp.get_context(method)
        queue, answers = context.Queue(2), context.JoinableQueue()
        worker = context.Process(target=work, args=(queue, answers, numpy.ones(3)))
        worker.start()
        queue.put(method)
        said.append((method, *answers.get()))
        worker.join()
        worker.close()
        with context.Manager() as manager:
            manager.list([numpy.zeros(10)]).append(1)
        del worker
    mp.set_start_method("spawn")
    assert now() == before, "by use"
    from multiprocessing.spawn import get_preparation_data
    print(json.dumps([said, get_preparation_data("any")["start_method"]]))
"""


def test_importing_it_and_using_it_changes_nothing_of_the_standard_module(run_file):
    said, standard = json.loads(run_file(CHANGES_NOTHING))
    # What Python tells a process that it starts: None, or in an older one the default.
    started = {"fork": None, "spawn": standard, "forkserver": standard}
    assert sorted(said) == [[way, way, 3.0, started[way], way] for way in sorted(started)]


def test_start_methods_are_independent_of_the_standard_module(run_python):
    code = """
import multiprocessing
import shmarray.multiprocessing as mp
mp.set_start_method("spawn")
assert multiprocessing.get_start_method(allow_none=True) is None
multiprocessing.set_start_method("forkserver")
ours = mp.get_start_method(), mp.get_context().get_start_method()
print(*ours, multiprocessing.get_start_method())
try:
    mp.set_start_method("fork")
except RuntimeError as error:
    print(error)
mp.set_start_method("fork", force=True)
print(mp.get_start_method(), multiprocessing.get_start_method())
"""
    said = "spawn spawn forkserver\ncontext has already been set\nfork forkserver\n"
    assert run_python(code) == said


def test_an_unknown_start_method_is_refused():
    with pytest.raises(ValueError, match="cannot find context for 'thread'"):
        mp.get_context("thread")
    with pytest.raises(ValueError, match="concrete context"):
        mp.get_context("fork").set_start_method("spawn")


def test_all_of_the_package_is_imported_by_nobody_who_imports_shmarray(run_python):
    code = (
        "import shmarray, sys; print([name for name in sys.modules if "
        "name.startswith('multiprocessing')])"
    )
    assert run_python(code) == "[]\n"
    assert "shmarray.multiprocessing" in sys.modules


def test_the_package_may_take_the_place_of_the_standard_one(run_python):
    code = """
import sys
import shmarray.multiprocessing
sys.modules["multiprocessing"] = shmarray.multiprocessing
import multiprocessing.pool
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import Process, Queue
import numpy
assert multiprocessing.pool.Pool.__module__ == "shmarray.multiprocessing.pool"
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(pool.map(numpy.sum, [numpy.ones(100_000)] * 2) == [100_000] * 2)
queue = Queue()
worker = multiprocessing.get_context("fork").Process(target=queue.put, args=(numpy.ones(9),))
worker.start()
print(queue.get().sum() == 9)
worker.join()
with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as executor:
    print(executor.submit(numpy.sum, numpy.ones(9)).result() == 9)
"""
    assert run_python(code) == "True\nTrue\nTrue\n"


MODULES_IN_PACKAGE = """
import importlib, sys, types
package = importlib.import_module(sys.argv[1])
print(*sorted(name for name, value in vars(package).items() if isinstance(value, types.ModuleType)))
"""


def test_the_modules_that_the_standard_package_has_imported_are_there(run_python):
    ours, standard = (
        {*run_python(MODULES_IN_PACKAGE, name).split()}
        for name in ("shmarray.multiprocessing", "multiprocessing")
    )
    assert {"context", "process", "reducer"} <= standard - {"sys"} <= ours
