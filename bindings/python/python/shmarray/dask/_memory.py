"""Tells how much memory a process uses, with its share of what it shares with others.

The resident size of a process, which Dask compares with a worker's limit, has all pages of shared
memory that it has touched. Eight workers that have one array would be told to have eight.
"""

import functools
import os
import re
import time
import typing
from pathlib import Path
from typing import Any

from distributed.nanny import Nanny
from distributed.system_monitor import SystemMonitor
from distributed.worker_memory import NannyMemoryManager

_SMALL_BYTES = 16 << 20
"""Less shared memory than this is not looked at."""
_LOOK_SHARE = 100
"""A look takes at most one in this many of a process's seconds: the kernel walks all pages."""
_STATUS = re.compile(rb"^(VmRSS|RssShmem):\s+(\d+) kB$", re.MULTILINE)
_ROLLUP = re.compile(rb"^Pss_Shmem:\s+(\d+) kB$", re.MULTILINE)


class Memory:
    """The memory of a process, by its pid."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._folder = Path(f"/proc/{pid}")
        self._own_part = 1.0
        self._next_look = 0.0

    def used_bytes(self, *, looks_now: bool = False) -> int | None:
        """Returns the resident bytes, of which each page of shared memory is divided by the number
        of processes that have it. Returns None if the system does not say.

        Between two looks at the pages it assumes the share of the last one. ``looks_now`` looks.
        """
        try:
            found = dict(_STATUS.findall((self._folder / "status").read_bytes()))
            resident, shared = (int(found[key]) << 10 for key in (b"VmRSS", b"RssShmem"))
            if shared < _SMALL_BYTES:
                return resident
            if looks_now or time.monotonic() >= self._next_look:
                self._read_share(shared)
        except (OSError, KeyError):
            return None
        return resident - shared + round(shared * self._own_part)

    def _read_share(self, shared: int) -> None:
        start = time.monotonic()
        found = _ROLLUP.search((self._folder / "smaps_rollup").read_bytes())
        end = time.monotonic()
        self._next_look = end + (end - start) * _LOOK_SHARE
        if found is not None:
            self._own_part = min(1.0, (int(found[1]) << 10) / shared)


class _State:
    is_installed: typing.ClassVar[bool] = False
    own: typing.ClassVar[Memory | None] = None
    """That of this process, which may have been forked."""


def install() -> None:
    """Makes Dask's monitors of workers and of nannies use this."""
    if _State.is_installed:
        return
    _State.is_installed = True
    _change_monitor()
    _change_nanny()


def _change_monitor() -> None:
    standard = SystemMonitor.get_process_memory

    @functools.wraps(standard)
    def get_process_memory(self: SystemMonitor) -> int:
        resident = standard(self)
        if _State.own is None or _State.own.pid != os.getpid():
            _State.own = Memory(os.getpid())
        used = _State.own.used_bytes()
        # Tests and other packages replace the standard method, and may say less.
        return resident if used is None else min(resident, used)

    SystemMonitor.get_process_memory = get_process_memory  # type: ignore[method-assign]


def _change_nanny() -> None:
    standard = NannyMemoryManager.memory_monitor

    @functools.wraps(standard)
    def memory_monitor(self: NannyMemoryManager, nanny: Nanny) -> None:
        """Leaves a worker alone whose memory is not its own. Dask looks at any other."""
        if not _is_within(self, nanny):
            standard(self, nanny)

    NannyMemoryManager.memory_monitor = memory_monitor  # type: ignore[method-assign]


def _is_within(manager: NannyMemoryManager, nanny: Nanny) -> bool:
    process: Any = nanny.process and nanny.process.process
    fraction = manager.memory_terminate_fraction
    limit = manager.memory_limit
    if process is None or process.pid is None or not fraction or not limit:
        return False
    memory: Memory | None = getattr(nanny, "_shmarray_memory", None)
    if memory is None or memory.pid != process.pid:
        memory = Memory(process.pid)
        nanny._shmarray_memory = memory  # type: ignore[attr-defined]
    used = memory.used_bytes()
    if used is not None and used > fraction * limit:
        used = memory.used_bytes(looks_now=True)
    return used is not None and used <= fraction * limit
