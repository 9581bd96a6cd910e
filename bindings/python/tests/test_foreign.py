"""How the runners of other people's tests treat a test that fails."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "foreign"))

import cpython_multiprocessing
from differences import Differences


class Machine:
    """Runs each test alone, with a given outcome."""

    def __init__(self, outcomes):
        self._outcomes = outcomes

    def run(self, names):
        return {name: (self._outcomes[name], "how it went alone") for name in names}


@pytest.fixture(autouse=True)
def uncounted(monkeypatch):
    """These outcomes are not the suite's own."""
    monkeypatch.delenv("SHMARRAY_JUNIT", raising=False)


@pytest.mark.parametrize(
    ("alone", "status", "counts"),
    [
        ("passed", 0, "1 passed, 0 failed, 0 skipped, 1 flaky"),
        ("failed", 1, "1 passed, 1 failed, 0 skipped"),
    ],
)
def test_a_test_that_passes_alone_is_flaky_and_one_that_fails_again_has_failed(
    alone, status, counts, capsys
):
    together = {
        "fork.A.test_one": ("passed", ""),
        "fork.A.test_two": ("failed", "how it went together"),
    }
    differences = Differences(None)
    again = cpython_multiprocessing.again_if_new(
        Machine({"fork.A.test_two": alone}), together, differences
    )
    verdicts = [(name, what) for name, (what, _) in (together | again).items()]
    assert differences.judge(verdicts) == status
    said = capsys.readouterr().out
    assert said.endswith(f"\nforeign tests: {counts}\n")
    assert ("flaky fork.A.test_two\n" in said) == (alone == "passed")
    assert f"how it went {'together' if alone == 'passed' else 'alone'}" in said


def test_tests_that_are_all_flaky_have_run(capsys):
    assert Differences(None).judge([("a", "flaky")]) == 0
    counts = "0 passed, 0 failed, 0 skipped, 1 flaky"
    assert capsys.readouterr().out == f"flaky a\nforeign tests: {counts}\n"
