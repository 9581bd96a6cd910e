"""Runs the suites of tests, several at a time, and reports.

    . ci/env; python ci/checks/runner [--quick] [--ci] [--release] [WORD …]

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

from junit import Count
from listed import FORMS, LONGEST, NEEDS
from report import report
from running import Result, expect_children, run

AT_ONCE = len(os.sched_getaffinity(0)) + 1
BEGIN_BEFORE = float(os.environ.pop("BEGIN_BEFORE", "inf"))


def chosen(arguments):
    """The suites of the forms that the words name, in the order of the list."""
    forms = [word.removeprefix("--") for word in arguments if word.startswith("--")]
    words = [word for word in arguments if not word.startswith("--")]
    suites = [suite for form in forms or ["quick"] for suite in FORMS[form]]
    return [suite for suite in suites if any(word in suite.name for word in words or [""])]


def turn(suite):
    """When it begins: those that take longest are first."""
    return LONGEST.index(suite.label) if suite.label in LONGEST else len(LONGEST)


def run_if_possible(suite):
    """Runs a suite, unless this system lacks what it needs."""
    program = NEEDS.get(suite.name)
    if program is None or shutil.which(program):
        return run(suite, BEGIN_BEFORE)
    return Result(suite, Count(reasons=[f"{program} is not there"]))


def main():
    expect_children()
    suites = chosen(sys.argv[1:])
    with ThreadPoolExecutor(AT_ONCE) as runners:
        running = {
            suite.label: runners.submit(run_if_possible, suite)
            for suite in sorted(suites, key=turn)
        }
    sys.exit(report([running[suite.label].result() for suite in suites]))


if __name__ == "__main__":
    main()
