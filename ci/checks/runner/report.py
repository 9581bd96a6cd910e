"""The closing report of a run: what failed, what was skipped and why, what was flaky, a table, and
lines of counts, of which the last counts everything.
"""

from junit import Count

COLUMNS = f"{'passed':>7} {'failed':>7} {'skipped':>8} {'flaky':>6} {'seconds':>8}"
COMMANDS = {"quick": "ci/test", "ci": "ci/test --ci", "release": "ci/test --release"}


def report(results):
    """Prints the report of suites that ended, as `running.Result`s.

    Returns the exit code: 0 when nothing failed and something passed.
    """
    for result in results:
        print(*result.failure(), sep="\n", end="")
    print_skipped(results)
    flaky = [f"{result.suite.label}: {test}" for result in results for test in result.count.flaky]
    if flaky:
        print("\nFlaky, failed and then passed alone:", *flaky, sep="\n  ")
    print_table(results)
    print()
    forms = dict.fromkeys(result.suite.form for result in results)
    for form in forms if len(forms) > 1 else ():
        print(f"{COMMANDS[form]}: {total(results, form)}")
    print(total(results))
    return int(bool(total(results).failed) or not total(results).passed)


def total(results, form=None):
    counts = (result.count for result in results if form in (None, result.suite.form))
    return sum(counts, Count())


def print_skipped(results):
    reasons = [
        f"{result.suite.label}: {reason}" for result in results for reason in result.count.reasons
    ]
    print("\nSkipped:" if reasons else "\nNothing was skipped.")
    for reason in dict.fromkeys(reasons):
        print(f"  {reasons.count(reason)} × {reason}")


def print_table(results):
    print(f"\n{'suite':48} {COLUMNS} {'of processors':>14}")
    for result in results:
        print(row(result.suite.label, result.count, f"{result.seconds:.0f}", result.used))
    print(row("together", total(results), "", sum(result.used for result in results)))


def row(name, count, seconds, used):
    counts = f"{count.passed:7} {len(count.failed):7} {len(count.reasons):8} {len(count.flaky):6}"
    return f"{name:48} {counts} {seconds:>8} {used:14.0f}"
