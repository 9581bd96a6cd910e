"""Runs contenders in turn, and keeps their figures.

A contender is a function without arguments. It returns the seconds of one round, or of the round's
messages, whose median counts; or several figures of the round by name, such as percentiles. Rounds
are interleaved, A B C A B C …, so that other work of the machine meets all contenders.
"""

import contextlib
import json
import os
import pathlib
import select
import signal
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass, field

import peers
from tqdm import tqdm

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
MADE = ROOT / "target/ci/bench"
ANSWER_WITHIN_SECONDS = 300  # a watchdog, no measure


class Failed(Exception):
    """Raised by a contender that cannot do this: it has no figure, and the others go on."""


@dataclass
class Figure:
    row: str
    case: str
    who: str
    unit: str
    median: float
    least: float
    most: float
    rounds: int


def rounded(value):
    """A figure has no more digits than these, and the file of all is smaller."""
    return float(f"{value:.5g}")


@dataclass
class Results:
    """The figures, and why some are absent."""

    quick: bool
    figures: list = field(default_factory=list)
    said: list = field(default_factory=list)  # what is no number
    failed: list = field(default_factory=list)

    def add(self, row, case, who, values, unit="s"):
        found = map(rounded, (statistics.median(values), min(values), max(values)))
        self.figures.append(Figure(row, case, who, unit, *found, len(values)))

    def say(self, row, case, who, words):
        self.said.append({"row": row, "case": case, "who": who, "words": words})

    def get(self, row, case, who):
        """The median, or None."""
        found = [f.median for f in self.figures if (f.row, f.case, f.who) == (row, case, who)]
        return found[0] if found else None

    def fail(self, row, case, who, why):
        failure = {"row": row, "case": case, "who": who, "why": str(why).splitlines()[0][:200]}
        if failure not in self.failed:
            self.failed.append(failure)

    def as_json(self):
        return {
            "quick": self.quick,
            "failed": self.failed,
            "said": self.said,
            "figures": [asdict(figure) for figure in self.figures],
        }


class Bench:
    """The options of a run, its results and its progress."""

    def __init__(self, quick):
        self.quick = quick
        self.results = Results(quick)
        self.bar = tqdm(total=0, unit="round", dynamic_ncols=True, disable=not sys.stderr.isatty())

    def pick(self, full, quick):
        return quick if self.quick else full

    def measure(self, row, case, contenders, rounds, unit="s"):
        """Measures a case. A contender that fails once is left out of the rest of the case. One
        with several figures has a case of its own, in which they are by name."""
        self.bar.set_description(f"{row}: {case}")
        self.bar.total += rounds * len(contenders)
        values = {who: [] for who in contenders}
        for _ in range(rounds):
            for who in list(values):
                self._round(row, case, who, contenders[who], values)
                self.bar.update()
        for who, found in values.items():
            if isinstance(found[0], dict):
                for name in found[0]:
                    by_round = [figures[name] for figures in found]
                    self.results.add(row, f"{case}, {who}", name, by_round, unit)
            else:
                self.results.add(row, case, who, found, unit)

    def _round(self, row, case, who, contender, values):
        try:
            seconds = contender()
        except Failed as error:
            self.results.fail(row, case, who, error)
            del values[who]
            return
        values[who].append(statistics.median(seconds) if isinstance(seconds, list) else seconds)


class Answering:
    """A program in its own process that answers each line of JSON by another."""

    def __init__(self, name, *command):
        MADE.mkdir(parents=True, exist_ok=True)
        self._log = open(MADE / f"{name}.log", "ab")  # noqa: SIM115 - until close
        self._process = subprocess.Popen(
            [sys.executable, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
        )

    def ask(self, **order):
        try:
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise Failed("it has ended") from None
        ready, _, _ = select.select([self._process.stdout], [], [], ANSWER_WITHIN_SECONDS)
        line = self._process.stdout.readline() if ready else b""
        if not line:
            self._kill()
            raise Failed("it does not answer" if not ready else "it has ended")
        answer = json.loads(line)
        if "error" in answer:
            raise Failed(answer["error"])
        return answer

    def _kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def close(self):
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._kill()
        self._log.close()


class Sender(Answering):
    """A peer's sender in its own process: `contender.py`."""

    def __init__(self, name, receivers=1):
        super().__init__(name, HERE / "contender.py", name)
        self.ask(do="start", receivers=receivers)

    def close(self):
        with contextlib.suppress(Failed):
            self.ask(do="end")
        super().close()


@contextlib.contextmanager
def senders(bench, row, names=None):
    """The senders of the peers that start."""
    running = {}
    try:
        for name in names or peers.present():
            bench.bar.set_description(f"{row}: {peers.label(name)} starts")
            try:
                running[name] = Sender(name)
            except Failed as error:
                bench.results.fail(row, "start", name, error)
        yield running
    finally:
        for sender in running.values():
            sender.close()


def program(*command, stdin=None):
    """Runs a program and returns the JSON values that it prints, one a line."""
    try:
        done = subprocess.run(
            list(map(str, command)),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=ANSWER_WITHIN_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise Failed("it does not end") from None
    if done.returncode:
        raise Failed(reason(done.stderr))
    return [json.loads(line) for line in done.stdout.splitlines()]


def reason(stderr):
    """The error's last line outside of the traceback, which Python prints before it, Ruby after."""
    lines = [line for line in stderr.splitlines() if line.strip() and not line[0].isspace()]
    return lines[-1] if lines else "it failed"


def limit(*arguments):
    """A contender that measures the machine's limit by limits.c."""
    return lambda: program(MADE / "limits", *arguments)[0]
