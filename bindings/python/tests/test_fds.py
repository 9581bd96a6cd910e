"""Every fd closed behind the library's back, the standard ones, too.

ci/checks/scenarios/test_fds.py has the processes whose standard fds stay open.
"""

import subprocess
import sys

# Creates arrays of every kind, with the text of each handle.
HELD = """
import json, os, signal, sys
import numpy as np
import shmarray
whole = shmarray.array(np.arange(12).reshape(3, 4))
named = shmarray.full(5, 5, name="named")
view = shmarray.array(np.arange(9))[::3]
readonly = shmarray.attach("named", readonly=True)[:2]
inside = memoryview(shmarray.full(4, 7, dtype="i8"))
held = [whole, named, view, readonly, np.asarray(inside)]
texts = [str(shmarray.handle(array)) for array in held]
"""
# A program that uses all of the library.
EVERYTHING = """
assert [shmarray.attach(text).tolist() for text in texts] == [array.tolist() for array in held]
assert shmarray.attach("named").tolist() == named.tolist()
made = [shmarray.full(100, number) for number in range(20)]
again = [shmarray.attach(str(shmarray.handle(array))) for array in made]
assert [int(array.sum()) for array in again] == [100 * i for i in range(20)]
other = shmarray.share(np.arange(1000)[::-1])
assert other[0] == 999
second = shmarray.zeros(3, name="second")
shmarray.unlink("second")
shmarray.sweep()
assert {info.name for info in shmarray.segments()} >= {"named"}
whole[1, 2] = inside[3] = 40
assert shmarray.attach(texts[0])[1, 2] == shmarray.attach(texts[4])[3] == 40
whole[1, 2], inside[3] = 6, 7
del made, other, second
"""


WITHOUT_ANY = """
os.closerange(0, 1000)
try:
    exec(sys.argv[1])
except BaseException:
    os._exit(3)
"""


def test_even_the_standard_fds_may_be_closed(files):
    command = [sys.executable, "-W", "error", "-c", HELD + WITHOUT_ANY, EVERYTHING]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0
    assert files() == []
