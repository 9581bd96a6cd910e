"""What a Ruby program gains or loses that changes from the gem parallel: jobs of every kind."""

import json
import subprocess

from harness import HERE, Failed, reason

ROW = "jobs"
THEIRS = "the gem parallel"
LIBRARIES = {"ours": "numo/shared", THEIRS: "parallel"}
SHORT_SECONDS = 0.03
"""A shorter call is made several times."""
QUICK = ["3,000 arrays of 10 elements", "3 Integers"]


def measure(bench):
    bench.bar.set_description(ROW)
    sides = {who: Side(library) for who, library in LIBRARIES.items()}
    try:
        names = sides["ours"].names()
        sides[THEIRS].names()
        for name in QUICK if bench.quick else names:
            times = max(1, round(SHORT_SECONDS / sides[THEIRS].seconds(name, 1)))
            contenders = {who: side.contender(name, times) for who, side in sides.items()}
            bench.measure(ROW, name, contenders, bench.pick(11, 2))
    except Failed as error:
        for who in sides:
            bench.results.fail(ROW, "all", who, error)
    finally:
        for side in sides.values():
            side.close()


class Side:
    """A program with one of the libraries."""

    def __init__(self, library):
        self._process = subprocess.Popen(
            ["ruby", "-W0", HERE / "programs/jobs.rb", library],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def names(self):
        return self._answer()

    def seconds(self, name, times):
        print(json.dumps({"case": name, "times": times}), file=self._process.stdin, flush=True)
        return self._answer()

    def contender(self, name, times):
        return lambda: self.seconds(name, times)

    def close(self):
        self._process.stdin.close()
        self._process.wait()

    def _answer(self):
        answer = self._process.stdout.readline()
        if not answer:
            raise Failed(reason(self._process.stderr.read()))
        return json.loads(answer)
