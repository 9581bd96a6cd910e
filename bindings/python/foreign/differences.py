"""Other people's tests, and the list of those that may fail: each with the reason why we differ.

A list is a TOML file of patterns of tests and reasons. Of those that a pattern under ``[differs]``
matches at least one must fail, or the list is wrong; those under ``[sometimes]`` may. Those under
``[hangs]`` are not run. A pattern that matches no test that ran counts for another Python.
Everything else must pass.
"""

import collections
import fnmatch
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3] / "ci/checks/runner"))
import junit  # type: ignore[import-not-found]


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
        """Judges tests, given as (name, "passed", "failed", "flaky" or "skipped: …"). Returns the
        exit status.
        """
        judged = []
        names: dict[str, list[str]] = collections.defaultdict(list)
        for name, outcome in outcomes:
            names[outcome].append(name)
            reason = self.reason(name) if outcome == "failed" else None
            judged.append((name, outcome if reason is None else "passed"))
            if reason is not None:
                print(f"differs {name}: {reason}")
            elif outcome in ("failed", "flaky"):
                print(f"{outcome} {name}")
        for line in self._no_longer(names["passed"], names["failed"]):
            print(line)
            judged.append((line, "failed"))
        status: int = junit.close("foreign tests", judged)
        return status

    def _no_longer(self, passed: list[str], failed: list[str]) -> list[str]:
        """Returns lines about wrong entries of the list."""
        return [
            f"{pattern}: it differs no longer"
            for pattern in self._differs
            if fnmatch.filter(passed, pattern) and not fnmatch.filter(failed, pattern)
        ]
