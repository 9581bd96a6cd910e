"""The memory that processes and shared memory use, in the kernel's numbers."""

import os
import threading

SHARED = os.environ.get("SHMARRAY_DIR", "/dev/shm")
EVERY_SECONDS = 0.005


def used_shared():
    """The bytes of all files in shared memory."""
    found = os.statvfs(SHARED)
    return (found.f_blocks - found.f_bfree) * found.f_frsize


def of_process(pid):
    """A process's resident and proportional bytes, their shared memory, and the peak resident."""
    rollup = fields(f"/proc/{pid}/smaps_rollup")
    status = fields(f"/proc/{pid}/status")
    return {
        "rss": rollup["Rss"],
        "pss": rollup["Pss"],
        "pss_shmem": rollup["Pss_Shmem"],
        "pss_private": rollup["Pss_Anon"],
        "rss_peak": status["VmHWM"],
    }


def fields(path):
    with open(path) as file:
        rows = [line.split() for line in file]
    return {
        row[0].rstrip(":"): int(row[1]) * 1024 for row in rows if len(row) == 3 and row[2] == "kB"
    }


class Peak:
    """A thread that notes the most that shared memory held, looking every 5 ms."""

    def __enter__(self):
        self.most = used_shared()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._done.set()
        self._thread.join()

    def _watch(self):
        while not self._done.wait(EVERY_SECONDS):
            self.most = max(self.most, used_shared())
