"""Other people's tests, and the list of those that may fail: each with the reason why we differ.

A list is a TOML file of patterns of tests and reasons. Of those that a pattern under ``[differs]``
matches at least one must fail, or the list is wrong; those under ``[sometimes]`` may. Those under
``[hangs]`` are not run. A pattern that matches no test that ran counts for another Python.
Everything else must pass.
"""

import collections
import fnmatch
import tomllib
from collections.abc import Iterable
from pathlib import Path


class Differences:
    """Reads a list. Without a path it is empty."""

    def __init__(self, path: str | Path | None) -> None:
        lists = {} if path is None else tomllib.loads(Path(path).read_text())
        self._differs: dict[str, str] = lists.get("differs", {})
        self._sometimes: dict[str, str] = lists.get("sometimes", {})
        self._hangs: dict[str, str] = lists.get("hangs", {})

    def reason(self, name: str) -> str | None:
        """Returns why a test may fail, or None."""
        reasons = {**self._sometimes, **self._differs}
        return next(
            (reasons[pattern] for pattern in reasons if fnmatch.fnmatchcase(name, pattern)), None
        )

    def hangs(self, name: str) -> bool:
        """Returns whether a test waits for what ours never does. Says why."""
        found = (
            self._hangs[pattern] for pattern in self._hangs if fnmatch.fnmatchcase(name, pattern)
        )
        why = next(found, None)
        if why is not None:
            print(f"not run {name}: {why}")
        return why is not None

    def judge(self, outcomes: Iterable[tuple[str, str]]) -> int:
        """Says what came of tests, given as (name, "passed", "failed", "flaky" or "skipped: …");
        gives the exit status.

        A flaky test failed, and passed when it ran again: it counts neither as the one nor as the
        other.
        """
        by_outcome: dict[str, list[str]] = collections.defaultdict(list)
        for name, outcome in outcomes:
            by_outcome[outcome].append(name)
        passed, failed, flaky = (
            by_outcome.pop(outcome, []) for outcome in ("passed", "failed", "flaky")
        )
        for outcome, names in by_outcome.items():
            print(f"{outcome.replace(':', '', 1)} ({len(names)})")
        expected = [name for name in failed if self.reason(name) is not None]
        for name in expected:
            print(f"differs {name}: {self.reason(name)}")
        wrong = [name for name in failed if self.reason(name) is None] + self._no_longer(
            passed, failed
        )
        if not passed and not failed and not flaky:
            wrong.append("None of the foreign tests ran.")
        for line in wrong:
            print(f"FAILED {line}")
        for name in flaky:
            print(f"flaky {name}")
        skipped = sum(map(len, by_outcome.values()))
        counts = f"{len(passed) + len(expected)} passed, {len(wrong)} failed, {skipped} skipped"
        print(f"{counts}, {len(flaky)} flaky" if flaky else counts)
        return int(bool(wrong))

    def _no_longer(self, passed: list[str], failed: list[str]) -> list[str]:
        """Returns lines about wrong entries of the list."""
        return [
            f"{pattern}: it differs no longer"
            for pattern in self._differs
            if fnmatch.filter(passed, pattern) and not fnmatch.filter(failed, pattern)
        ]
