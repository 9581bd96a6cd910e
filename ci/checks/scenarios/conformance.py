"""Runs the conformance drivers over the golden files and over each other; prints the table.

    python ci/checks/scenarios/conformance.py

../drivers/README.md says what a driver is. Every failure is printed with the command. The exit
status is 1 if there was a failure, or if anything did not run that no skip accounts for.
"""

import itertools
import json
import os
import pathlib
import shutil
import sys
import tempfile

import lists
from drivers import CHECKS, COMMANDS, NUMO_ABSENT, Process, has_numo, junit

GOLDEN = CHECKS / "golden"
LAYOUTS = ("c", "f", "strided", "reversed", "transposed", "scalar", "empty")
COUNTS = {"scalar": 1, "empty": 0}

# The only skips: a driver that is not there, and dtypes whose elements a language lacks.
NUMO_LACKS = {"|b1": "Numo::Bit packs bits, a bool is a byte", "<f2": "Numo has no float16"}


def lacks(maker, dtype):
    """Returns why a language has no elements of a dtype. None if it must have them."""
    is_by_name = dtype[0] not in "<|"
    if maker == "numo":
        return "Numo has only NumPy's dtypes" if is_by_name else NUMO_LACKS.get(dtype)
    if maker == "cpp" and is_by_name and dtype != "bfloat16":
        return "C++ has no such type"
    return None


class Tally:
    def __init__(self):
        self.outcomes = []
        self.failed = []

    @property
    def passed(self):
        return sum(outcome == "passed" for _, outcome in self.outcomes)

    def check(self, what, answer, expected):
        if expected(answer) if callable(expected) else answer == expected:
            self.outcomes.append((what, "passed"))
            return True
        self.fail(f"{what}: {answer!r}")
        return False

    def fail(self, what):
        self.failed.append(what)
        self.outcomes.append((what, "failed"))

    def skip(self, reason):
        self.outcomes.append((reason, f"skipped: {reason}"))


def numbers(values):
    return ",".join(map(str, values)) or "-"


def dtype_text(dtype):
    return (
        dtype
        if isinstance(dtype, str)
        else json.dumps(dtype, separators=(",", ":"), ensure_ascii=False)
    )


def walk_golden(driver, directory, tally):
    """Walks every golden file and handle through one driver."""
    index = json.loads((GOLDEN / "index.json").read_text())
    name = driver.name
    for one in index["segments"]:
        path = directory / f"shmarray-{one['id']}"
        shutil.copy(GOLDEN / "segments" / one["file"], path)
        path.chmod(0o600)
        expected = (
            f"ok {dtype_text(one['dtype'])} {numbers(one['shape'])} {numbers(one['strides'])}"
        )
        for access in ("ro", "rw"):
            tally.check(
                f"{name}: {one['file']}", driver.ask(f"attach a {access} {one['handle']}"), expected
            )
            tally.check(
                f"{name}: {one['file']}: bytes", driver.ask("bytes a"), f"ok {one['bytes']}"
            )
            tally.check(
                f"{name}: {one['file']}: handle", driver.ask("handle a"), f"ok {one['handle']}"
            )
    for one in index["handles"]:
        tally.check(
            f"{name}: {one['text']}",
            driver.ask(f"attach a ro {one['text']}"),
            lambda a: a.startswith("ok "),
        )
        tally.check(f"{name}: {one['text']}: bytes", driver.ask("bytes a"), f"ok {one['bytes']}")
    for one in index["bad_handles"]:
        refused = lambda answer, says=one["says"]: answer.startswith("error ") and says in answer
        tally.check(f"{name}: {one['text']}", driver.ask(f"attach a ro {one['text']}"), refused)
    driver.ask("drop")
    path = directory / f"shmarray-{index['bad_segment_id']}"
    for one in index["bad_segments"]:
        shutil.copy(GOLDEN / "bad_segments" / one["file"], path)
        refused = lambda answer, says=one["says"]: answer.startswith("error ") and says in answer
        for access in ("ro", "rw"):
            answer = driver.ask(f"attach a {access} {index['bad_segment_handle']}")
            tally.check(f"{name}: {one['file']}", answer, refused)
            if not path.exists():  # nobody held it, so the refusal gave it back
                shutil.copy(GOLDEN / "bad_segments" / one["file"], path)
    path.unlink()
    for one in index["segments"]:
        (directory / f"shmarray-{one['id']}").unlink()


def expected_count(layout):
    return COUNTS.get(layout, 24)


def pair(maker, user, dtype, layout, user_has, tally):
    """Hands an array from maker to user, which compares it, writes, and tries it read-only."""
    what = f"{maker.name} to {user.name}, {dtype} {layout}"
    made = maker.ask(f"create a {dtype} {layout}")
    if not tally.check(what, made, lambda answer: answer.startswith("ok {")):
        return
    handle = made[3:]
    for access in ("ro", "rw"):
        if not tally.check(
            f"{what} {access}",
            user.ask(f"attach a {access} {handle}"),
            lambda a: a.startswith("ok "),
        ):
            continue
        if not user_has:
            tally.check(f"{what} {access}: bytes", user.ask("bytes a"), maker.ask("bytes a"))
            continue
        tally.check(
            f"{what} {access}: compare", user.ask("compare a"), f"ok {expected_count(layout)}"
        )
        if layout == "empty":
            continue
        if access == "ro":
            tally.check(
                f"{what}: write to read-only",
                user.ask("write a"),
                lambda a: a.startswith("refused "),
            )
            tally.check(
                f"{what}: unchanged", maker.ask("compare a"), f"ok {expected_count(layout)}"
            )
        else:
            tally.check(f"{what}: write", user.ask("write a"), "ok")
            tally.check(f"{what}: written", maker.ask("written a"), "ok")
    user.ask("drop")
    maker.ask("drop")


def channel_pair(maker, user, dtype, tally):
    """Hands a channel from maker to user by its handle and by its name; user receives a message."""
    for way in ("handle", "name"):
        what = f"{maker.name} to {user.name}, a channel of {dtype} by its {way}"
        name = f"{maker.name}-{user.name}-{dtype.lstrip('<|')}-{way}"
        made = maker.ask(f"publish {name} {dtype}")
        if tally.check(what, made, lambda answer: answer.startswith("ok {")):
            address = made[3:] if way == "handle" else name
            tally.check(what, user.ask(f"receive {address}"), f"ok 24 {dtype}")
        maker.ask("drop")


def run_pairs(drivers, tally):
    """Returns the table: how many checks passed for each ordered pair."""
    has = {name: driver.ask("dtypes").split()[1:] for name, driver in drivers.items()}
    table = {}
    for maker, user in itertools.product(drivers, drivers):
        before = tally.passed
        failed = len(tally.failed)
        other = drivers[user] if user != maker else drivers[user].twin
        for dtype, layout in itertools.product(has["rust"], LAYOUTS):
            if dtype not in has[maker]:
                reason = lacks(maker, dtype)
                if reason is None:
                    tally.fail(f"{maker} has no {dtype}, which no skip allows")
                else:
                    tally.skip(f"{dtype} made by {maker}: {reason}")
                continue
            pair(drivers[maker], other, dtype, layout, dtype in has[user], tally)
            if layout == "c" and dtype in has[user]:
                channel_pair(drivers[maker], other, dtype, tally)
        lists.run_pair(drivers[maker], other, tally)
        table[maker, user] = (tally.passed - before, len(tally.failed) - failed)
    return table


def print_table(names, table):
    print("checks passed, from the maker (row) to the user (column):")
    print(f"{'':8}" + "".join(f"{name:>10}" for name in names))
    for maker in names:
        cells = (table[maker, user] for user in names)
        print(
            f"{maker:8}" + "".join(f"{f'{good}!{bad}' if bad else good:>10}" for good, bad in cells)
        )


def start(name, directory):
    """Starts a driver, and another one beside it with which it is paired with itself."""
    environment = os.environ | {"SHMARRAY_DIR": str(directory)}
    process = Process.start(name, None, environment)
    process.twin = Process.start(name, None, environment)
    return process


def main():
    tally = Tally()
    names = [name for name in COMMANDS if name != "numo" or has_numo()]
    if "numo" not in names:
        tally.skip(NUMO_ABSENT)
    shared = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=shared, prefix="shmtest-") as directory:
        directory = pathlib.Path(directory)
        drivers = {name: start(name, directory) for name in names}
        for name, driver in drivers.items():
            called = "rust" if name == "musl" else name
            hello = driver.ask("hello")
            tally.check(name, hello.split()[:2], ["ok", called])
            print(hello[3:])
            driver.ask("create a <i4 c")  # its first use, so that it sweeps no golden file
            walk_golden(driver, directory, tally)
            lists.walk_golden(driver, directory, tally)
        table = run_pairs(drivers, tally)
        for driver in drivers.values():
            for process in (driver, driver.twin):
                tally.check(f"{driver.name}: exit status", process.leave(), 0)
        left = [name for name in os.listdir(directory) if not name.startswith("shmarray-registry-")]
        tally.check("segments left in the directory", left, [])
    print_table(list(drivers), table)
    for line in tally.failed[:40]:
        print("FAILED", line)
    status = junit.close("conformance", tally.outcomes)
    sys.exit(status or tally.passed < 1000)


if __name__ == "__main__":
    main()
