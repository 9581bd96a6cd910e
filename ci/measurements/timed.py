"""The programs of ci/checks/drivers, which time loops of their own in each language."""

import contextlib
import os
import select
import shutil
import sys

from harness import ANSWER_WITHIN_SECONDS, MADE, ROOT, Failed

sys.path.append(str(ROOT / "ci/checks/scenarios"))
import drivers  # noqa: E402 (of a folder that is no package)

drivers.COMMANDS["rust"] = [MADE / "driver-rust"]  # optimized, unlike that of the scenarios
NAMES = {"Rust": "rust", "C": "c", "C++": "cpp", "Python": "python", "Ruby": "ruby"}
LANGUAGES = [name for name in NAMES if name != "Ruby" or shutil.which("ruby")]


@contextlib.contextmanager
def driver(language, core=None):
    """A driver of this language, on this core if it is given one."""
    pinned = {} if core is None else {"preexec_fn": lambda: os.sched_setaffinity(0, {core})}
    process = drivers.Process.start(NAMES[language], None, **pinned)
    try:
        yield process
    finally:
        process.kill()
        process.errors.close()


def answer(process):
    """The numbers that it answers."""
    if not select.select([process.stdout], [], [], ANSWER_WITHIN_SECONDS)[0]:
        raise Failed("it does not answer")
    try:
        outcome, *words = process.read().split(" ")
    except drivers.EndedError as error:
        raise Failed(error) from None
    if outcome != "ok":
        raise Failed(" ".join(words))
    return [float(word) for word in words]


def ask(process, line):
    process.write(line)
    return answer(process)


def exchange(asks, answers, name, size, count, wait):
    """The seconds of a frame there and back, between the first core and the last."""
    cores = sorted(os.sched_getaffinity(0))
    with driver(asks, cores[0]) as asking, driver(answers, cores[-1]) as answering:
        answering.write(f"time_answer {name} {wait}")
        (seconds,) = ask(asking, f"time_ask {name} {size} {count} {wait}")
        answer(answering)
    return seconds
