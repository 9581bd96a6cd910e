"""Round trips of a frame while both sides poll, by iceoryx2's Python package.

Ours has no channel yet.
"""

import sys

from harness import HERE, program
from peers import version

ROW = "channel"
SIZES = {"6 bytes": 6, "6 MB": 6_000_000}


def measure(bench):
    if not version("iceoryx2"):
        return
    for case, size in SIZES.items():
        command = (sys.executable, HERE / "programs/iceoryx.py", size, bench.pick(5000, 1000))
        bench.measure(
            ROW, case, {"iceoryx2": lambda command=command: program(*command)[0]}, bench.pick(7, 1)
        )
