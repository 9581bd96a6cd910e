"""The closing report of a run: what was skipped and why, what was flaky, a table, and a line of
counts.
"""

KINDS = ("passed", "failed", "skipped")
COLUMNS = f"{'passed':>7} {'failed':>7} {'skipped':>8} {'flaky':>6} {'seconds':>8}"


def report(results):
    """Prints the report of (suite, count, (seconds, processor seconds)).

    Returns the exit code: 0 when nothing failed and something passed.
    """
    print_skipped(results)
    flaky = [f"{name}: {test}" for name, count, _ in results for test in count.flaky]
    if flaky:
        print("\nFlaky, failed and then passed alone:", *flaky, sep="\n  ")
    total = [sum(getattr(count, kind) for _, count, _ in results) for kind in KINDS]
    print_table(results, total, len(flaky))
    counts = ", ".join(f"{number} {kind}" for number, kind in zip(total, KINDS, strict=True))
    print(f"\n{counts}, {len(flaky)} flaky" if flaky else f"\n{counts}")
    passed, failed, _ = total
    return int(bool(failed) or not passed)


def print_skipped(results):
    reasons = [f"{name}: {reason}" for name, count, _ in results for reason in count.reasons]
    print("\nSkipped:" if reasons else "\nNothing was skipped.")
    for reason in dict.fromkeys(reasons):
        print(f"  {reasons.count(reason)} × {reason}")


def print_table(results, total, flaky):
    print(f"\n{'suite':44} {COLUMNS} {'of processors':>14}")
    for name, count, (seconds, used) in results:
        numbers = (count.passed, count.failed, count.skipped, len(count.flaky))
        print(row(name, numbers, f"{seconds:.0f}", used))
    processors = sum(used for _, _, (_, used) in results)
    print(row("together", (*total, flaky), "", processors))


def row(name, numbers, seconds, processors):
    passed, failed, skipped, flaky = numbers
    counts = f"{passed:7} {failed:7} {skipped:8} {flaky:6}"
    return f"{name:44} {counts} {seconds:>8} {processors:14.0f}"
