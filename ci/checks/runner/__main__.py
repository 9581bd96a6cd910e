"""Runs the suites of tests, several at a time, and reports.

    . ci/env; python ci/checks/runner [--ci | --release] [WORD …]

With words, only the suites whose names contain one of them. `listed.py` is the list, `running.py`
says when a suite has failed, `report.py` prints the end.

More suites run at a time than there are cores, since some of them mostly wait. Those that take
longest begin first, the others follow in the order of the list.

With BEGIN_BEFORE, a time in seconds since 1970, a suite that has not begun by then is skipped, and
the report says so. Continuous integration has a limit, and a run that is cut off there reports
nothing.
"""

import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor

from counting import Count
from listed import FORMS, LONGEST, NEEDS
from report import report
from running import expect_children, run

AT_ONCE = len(os.sched_getaffinity(0)) + 1
BEGIN_BEFORE = float(os.environ.pop("BEGIN_BEFORE", "inf"))


def chosen(words):
    """The suites that the words name, and the same in the order in which they begin."""
    form = "quick"
    if words and words[0].startswith("--"):
        form, words = words[0].removeprefix("--"), words[1:]
    suites = [suite for suite in FORMS[form] if any(word in suite[0] for word in words or [""])]
    first = LONGEST[form]
    return suites, sorted(
        suites, key=lambda suite: first.index(suite[0]) if suite[0] in first else len(first)
    )


def run_if_possible(name, command, count):
    """Runs a suite, unless this system lacks what it needs."""
    if isinstance(command, str):
        return Count(skipped=1, reasons=[command]), (0, 0)
    program = NEEDS.get(name)
    if program is None or shutil.which(program):
        return run(name, command, count, BEGIN_BEFORE)
    return Count(skipped=1, reasons=[f"{program} is not there"]), (0, 0)


def main():
    expect_children()
    suites, longest_first = chosen(sys.argv[1:])
    with ThreadPoolExecutor(AT_ONCE) as runners:
        running = {suite[0]: runners.submit(run_if_possible, *suite) for suite in longest_first}
    sys.exit(report([(suite[0], *running[suite[0]].result()) for suite in suites]))


if __name__ == "__main__":
    main()
