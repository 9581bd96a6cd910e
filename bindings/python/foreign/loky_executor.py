"""Runs loky's tests of its ProcessPoolExecutor with ours in its place.

    python loky_executor.py [--all] [WORD …]

loky ships its tests in its source package only, which pip brings when this runs; where pip finds no
index, nothing is run, and that is said. Workers start by spawn; with --all, by forkserver and by
fork, too. With words, only the tests whose names contain one are run.

What differs is listed in loky_executor.toml.
"""

import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from by_pytest import OtherProcess, add_option, options_of_suite, recorder
from differences import Differences, junit

METHODS = ("spawn", "forkserver", "fork")
IN_PLACE = '''

import shmarray.concurrent as _concurrent
import shmarray.multiprocessing as _multiprocessing


class ProcessPoolExecutor(_concurrent.ProcessPoolExecutor):
    """Ours, with the parameters and the attributes that the tests use."""

    def __init__(self, max_workers=None, context=None, initializer=None, initargs=(), **others):
        method = getattr(context, "get_start_method", lambda: context)()
        super().__init__(max_workers, _multiprocessing.get_context(method), initializer, initargs)

    @property
    def _flags(self):
        import types
        return types.SimpleNamespace(broken=self._broken or None, shutdown=self._shutdown_thread)

    def shutdown(self, wait=True, kill_workers=False):
        if kill_workers:
            for process in list((self._processes or {}).values()):
                process.kill()
        super().shutdown(wait, cancel_futures=kill_workers)


_RemoteTraceback = _concurrent.process._standard._RemoteTraceback
TerminatedWorkerError = BrokenProcessPool = _concurrent.WorkerLost
'''
"""The text at the end of `loky/process_executor.py`."""
UNCOUNTED = "\npsutil = None\n"
"""The text at the end of `tests/_executor_mixin.py`. Where psutil is installed, that counts the
processes, of which loky starts all at once. Ours are started as tasks come.
"""
CASES = """
import shmarray.multiprocessing
from loky import process_executor

from ._executor_mixin import ExecutorMixin
from ._test_process_executor import AsCompletedTests, ExecutorShutdownTest, ExecutorTest, WaitTests


class Ours(ExecutorMixin):
    executor_type = process_executor.ProcessPoolExecutor
    context = shmarray.multiprocessing.get_context({method!r})


class TestShutdown(Ours, ExecutorShutdownTest):
    def _prime_executor(self):
        pass


class TestWait(Ours, WaitTests):
    pass


class TestAsCompleted(Ours, AsCompletedTests):
    pass


class TestExecutor(Ours, ExecutorTest):
    pass
"""
"""As loky does for each of its start methods."""
OTHERS = (
    "killed_child",
    "manager_thread_crash",
    "feeder_error_hook",
    "memory_leak_protection",
    "max_depth",
    "viztracer",
)
"""Words in the names of tests that are left out. Some wait half a minute for tasks to be lost with
another worker, which ours are not. Others are about parts that only loky has.
"""
SILENT_SECONDS = 60
"""A test that takes longer hangs."""


def unpack(folder):
    """Returns loky's source package, or None if pip downloads none."""
    command = ["pip", "download", "-q", "--no-deps", "--no-binary=:all:", "loky", "-d"]
    if subprocess.run([sys.executable, "-m", *command, str(folder)], check=False).returncode:
        return None
    with tarfile.open(next(folder.glob("loky-*.tar.gz"))) as archive:
        # Python before 3.11.4 has no filters.
        archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
        archive.extractall(folder)
    return next(path for path in folder.glob("loky-*") if path.is_dir())


def write_cases(source, methods):
    """Installs our executor, and runs the tests for each start method."""
    with open(source / "loky/process_executor.py", "a") as file:
        file.write(IN_PLACE)
    with open(source / "tests/_executor_mixin.py", "a") as file:
        file.write(UNCOUNTED)
    for method in methods:
        (source / f"tests/test_{method}.py").write_text(CASES.format(method=method))
        yield f"tests/test_{method}.py"


def pytest_addoption(parser):
    add_option(parser)


def pytest_configure(config):
    config.pluginmanager.register(recorder(config))


def run(folder, source, options):
    files = list(write_cases(source, METHODS if options.all else METHODS[:1]))
    others = f"not ({' or '.join(OTHERS)})"
    words = f"({' or '.join(options.words)}) and {others}" if options.words else others
    process = OtherProcess(folder, __file__, [source, *sys.path[1:]], SILENT_SECONDS)
    chosen = ["--loky-verbosity=30", f"--rootdir={source}", "-k", words]
    return process.run(*chosen, *files, cwd=source)


def main():
    options = options_of_suite()
    with tempfile.TemporaryDirectory(prefix="foreign-") as place:
        folder = Path(place)
        source = unpack(folder)
        if source is None:
            return junit.close("loky", [("loky", "skipped: pip finds no source package of loky")])
        print(f"tests of {source.name}")
        verdicts = run(folder, source, options)
    return Differences(Path(__file__).with_suffix(".toml")).judge(verdicts)


if __name__ == "__main__":
    sys.exit(main())
