"""Tests of running.py, launch.py and .ci/run. `pytest ci/checks/runner/test_running.py`"""

import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import time

import pytest
import running
from counting import counted_line, minitest_line, one_check, pytest_line, rust_tests
from report import report

HERE = pathlib.Path(__file__).resolve().parent
IGNORED = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGPIPE,
    signal.SIGCHLD,
    signal.SIGXFSZ,
)
BLOCKED = (signal.SIGALRM, signal.SIGUSR1, signal.SIGTERM)
SIGNALS_TEST = "bindings/python/tests/test_shutdown.py", "-k", "ended_by_a_signal"


@pytest.fixture(autouse=True)
def logs(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "LOGS", tmp_path)
    return tmp_path


def shell(script):
    return ["bash", "-c", script]


def python(script):
    return [sys.executable, "-c", script]


def run_with_odd_signals(code):
    """What Python prints if its parent ignored and blocked signals, as nohup and shells do."""
    code = f"import sys; sys.path.insert(0, {str(HERE)!r})\n{code}"
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}

    def spoil():
        for number in IGNORED:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED)

    done = subprocess.run(
        ["nohup", *python(code)],
        preexec_fn=spoil,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    return done.stdout


def test_nothing_is_ignored_or_blocked_in_a_suite_whoever_started_it(logs):
    probe = python("print(open('/proc/self/status').read(), '1 passed, 0 failed')")
    run_with_odd_signals(f"""
import pathlib, running
from counting import counted_line
running.LOGS = pathlib.Path({str(logs)!r})
running.expect_children()
running.run("probe", {probe}, counted_line)
""")
    facts = dict(
        line.split(":\t")
        for line in (logs / "probe.log").read_text().splitlines()
        if line.startswith("Sig")
    )
    assert signals(facts["SigBlk"]) == set()
    assert signals(facts["SigIgn"]) == {signal.SIGPIPE, signal.SIGXFSZ}  # by Python itself


def signals(mask):
    """The signals of a mask in /proc/PID/status, without those that libc keeps for itself."""
    return {number for number in signal.valid_signals() if int(mask, 16) >> (number - 1) & 1}


def test_under_nohup_a_suites_child_dies_of_sighup(logs):
    printed = run_with_odd_signals(f"""
import pathlib, running
from counting import pytest_line
running.LOGS = pathlib.Path({str(logs)!r})
running.expect_children()
running.run("shutdown", ["pytest", "-q", *{SIGNALS_TEST}], pytest_line)
""")
    assert "5 passed    0 failed    0 skipped" in printed


def test_under_nohup_the_python_tests_alone_do_not_wait_for_ever():
    command = ["nohup", sys.executable, "-m", "pytest", "-q", *SIGNALS_TEST]
    done = subprocess.run(command, cwd=running.ROOT, capture_output=True, text=True)
    assert "5 passed" in done.stdout


def test_a_suite_that_fails_or_runs_nothing_or_does_not_count_has_failed(capsys):
    outcomes = {
        "echo 3 passed, 0 failed": (3, 0),
        "echo 3 passed, 2 failed; exit 1": (3, 2),
        "echo 3 passed, 0 failed; exit 1": (3, 1),
        "echo 3 passed, 0 failed; kill -9 $$": (3, 1),
        "echo 0 passed, 0 failed": (0, 1),
        "true": (0, 1),
    }
    for script, expected in outcomes.items():
        count, _ = running.run("outcome", shell(script), counted_line)
        assert (count.passed, count.failed) == expected, script
    assert "This suite ran no test." in capsys.readouterr().out


def test_a_command_that_is_not_there_has_failed():
    count, _ = running.run("absent", ["no-such-command"], one_check)
    assert (count.passed, count.failed) == (0, 1)


def test_processor_time_of_orphans_counts(logs):
    burn = "import time\nwhile time.process_time() < 0.5: pass"
    (logs / "orphan").write_text(f"({sys.executable} -c '{burn}'; echo > end) &")
    script = f"cd {logs}; mkfifo end; bash orphan; read < end; echo 1 passed, 0 failed"
    _, (_, used) = running.run("burns", shell(script), counted_line)
    assert used >= 0.5


def test_processes_that_a_suite_leaves_running_are_killed_and_named(logs):
    count, _ = running.run(
        "leaves", shell("setsid sleep infinity & echo $! 1 passed, 0 failed"), counted_line
    )
    log = (logs / "leaves.log").read_text()
    pid = int(log.split()[0])
    assert not pathlib.Path(f"/proc/{pid}").exists()
    assert f"left running, and killed: {pid}" in log
    assert (count.passed, count.failed) == (1, 0)


def test_when_the_starter_is_killed_the_suite_ends_with_all_it_started(logs):
    nested = shell("setsid sleep infinity & echo $$ $! > pids.new; mv pids.new pids; wait")
    code = f"""
import os, pathlib, running, sys
from counting import one_check
running.LOGS = running.ROOT = pathlib.Path({str(logs)!r})
running.run("nested", {nested}, one_check)
"""
    starter = subprocess.Popen(python(f"import sys; sys.path.insert(0, {str(HERE)!r})\n{code}"))
    pids = wait_for_file(logs / "pids").split()
    lives = [os.pidfd_open(int(pid)) for pid in pids]
    starter.kill()
    starter.wait()
    for life in lives:
        select.select([life], [], [])
        os.close(life)


def wait_for_file(path):
    while not path.exists():
        pass
    return path.read_text()


@pytest.fixture
def impatient(monkeypatch):
    """A watch that looks often."""
    monkeypatch.setattr(running, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(running, "SILENT_LOOKS", 4)
    monkeypatch.setattr(running, "STUCK_LOOKS", 10)


@pytest.mark.usefixtures("impatient")
def test_a_suite_that_waits_for_what_does_not_come_is_shown_killed_and_failed(capsys):
    script = "mkfifo never; echo the last words; read < never; echo 1 passed, 0 failed"
    count, _ = running.run("stuck", shell(f"cd {running.LOGS}; {script}"), counted_line)
    said = capsys.readouterr().out
    assert (count.passed, count.failed) == (0, 1)
    assert "stuck is still running:" in said
    assert "stuck waits for what does not come, and is killed:" in said
    assert "wait_for_partner" in said  # the function of the kernel that opens a fifo
    assert "the last words" in said


@pytest.mark.usefixtures("impatient")
def test_a_suite_that_works_in_silence_is_shown_and_not_killed(capsys, monkeypatch, logs):
    looks = []
    monkeypatch.setattr(
        running.Watch,
        "look",
        lambda watch, look=running.Watch.look: looked(looks, logs) or look(watch),
    )
    waits = f"import pathlib\nwhile not pathlib.Path({str(logs / 'enough')!r}).exists(): pass\n"
    works = waits + "print('1 passed, 0 failed')"
    count, _ = running.run("works", python(works), counted_line)
    assert (count.passed, count.failed) == (1, 0)
    assert "works is still running:" in capsys.readouterr().out


def looked(looks, logs):
    """Ends the work after three times as many looks as kill a stuck suite."""
    looks.append(None)
    if len(looks) == 3 * running.STUCK_LOOKS:
        (logs / "enough").touch()


def test_a_suite_that_cannot_begin_in_time_is_skipped_and_the_report_says_why(tmp_path, capsys):
    command = shell(f"touch {tmp_path}/begun; echo 1 passed, 0 failed")
    count, seconds = running.run("late", command, counted_line, begin_before=0)
    assert (count.passed, count.failed, count.skipped) == (0, 0, 1)
    assert not (tmp_path / "begun").exists()
    assert report([("late", count, seconds)]) == 1
    assert "1 × late: no time was left to begin it\n" in capsys.readouterr().out


def test_ci_run_tells_both_forms_the_same_time_before_which_a_suite_may_begin(tmp_path):
    began = int(time.time())
    form = f"echo $BEGIN_BEFORE >> {tmp_path}/told; echo 1 passed, 0 failed, 0 skipped"
    assert ci_run(tmp_path, form, form).returncode == 0
    first, second = (tmp_path / "told").read_text().split()
    assert first == second
    assert int(first) >= began + 70 * 60


def ci_run(directory, quick, ci):
    for name in (".ci", "ci"):
        (directory / name).mkdir()
    shutil.copy(running.ROOT / ".ci/run", directory / ".ci/run")
    test = f'if [ "${{1-}}" = --ci ]; then\n{ci}\nelse\n{quick}\nfi\n'
    (directory / "ci/test").write_text(test)
    command = [directory / ".ci/run"]
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False
    )


@pytest.mark.parametrize(
    ("quick", "ci", "last", "status"),
    [
        (
            "echo 3 passed, 0 failed, 1 skipped",
            "echo 4 passed, 0 failed, 0 skipped",
            "7 passed, 0 failed, 1 skipped",
            0,
        ),
        (
            "echo 3 passed, 0 failed, 1 skipped, 1 flaky",
            "echo 4 passed, 0 failed, 0 skipped, 1 flaky",
            "7 passed, 0 failed, 1 skipped, 2 flaky",
            0,
        ),
        (
            "echo 3 passed, 1 failed, 0 skipped; exit 1",
            "echo 4 passed, 0 failed, 0 skipped",
            "7 passed, 1 failed, 0 skipped",
            1,
        ),
        (
            "echo a step FAILED; exit 1",
            "echo 4 passed, 0 failed, 0 skipped",
            "4 passed, 1 failed, 0 skipped",
            1,
        ),
        ("echo 3 passed, 0 failed, 0 skipped", "true", "3 passed, 1 failed, 0 skipped", 1),
        (
            "echo 3 passed, 0 failed, 0 skipped",
            "echo 4 passed, 0 failed, 0 skipped; exit 1",
            "7 passed, 0 failed, 0 skipped",
            1,
        ),
    ],
)
def test_ci_run_runs_both_forms_and_ends_with_their_counts(tmp_path, quick, ci, last, status):
    done = ci_run(tmp_path, quick, ci)
    assert (done.stdout.splitlines()[-1], done.returncode) == (last, status)
    assert "ci/test: " in done.stdout
    assert "ci/test --ci: " in done.stdout


def test_ci_run_says_at_its_end_once_more_what_failed(tmp_path, capsys):
    for name, code in (("well", "print('fine')"), ("badly", "print('alas'); 1 / 0")):
        running.run(name, [sys.executable, "-c", code], one_check)
    said = capsys.readouterr().out
    last = "\n1 passed, 1 failed, 0 skipped"
    lines = ci_run(tmp_path, f"cat <<'END'\n{said}\nlater{last}\nEND\nexit 1", "exit 1").stdout
    before, after = lines.split("ci/test failed:")
    assert "alas" in before
    assert "alas" in after
    assert "later" not in after
    assert "fine" not in lines


PYTEST_LOG = """..s.
SKIPPED [2] tests/a.py:3: no mount
4 passed, 2 skipped in 1.20s
left running, and killed: 3 sleep"""
RUST_LOG = """skipped no huge pages
test result: ok. 3 passed; 0 failed; 1 ignored;
test result: FAILED. 1 passed; 2 failed; 0 ignored;"""
COUNTED_LOG = "1 passed, 0 failed\nskipped Numo\nall: 7 passed, 1 failed, 2 skipped"
COUNTED = [
    (pytest_line, PYTEST_LOG, (4, 0, 2, ["no mount"])),
    (pytest_line, "F.E\n1 failed, 1 passed, 1 error in 100.20s (0:01:40)", (1, 2, 0, [])),
    (rust_tests, RUST_LOG, (3, 2, 2, ["no huge pages"])),
    (minitest_line, "5 runs, 9 assertions, 1 failures, 1 errors, 1 skips", (2, 2, 1, [])),
    (counted_line, COUNTED_LOG, (7, 1, 2, ["Numo"])),
]


@pytest.mark.parametrize(("count", "log", "expected"), COUNTED)
def test_a_log_is_counted(count, log, expected):
    found = count(log, True)
    assert (found.passed, found.failed, found.skipped, found.reasons) == expected


def test_a_flaky_test_counts_neither_as_passed_nor_as_failed_and_is_named(capsys):
    script = "echo flaky some.test; echo 3 passed, 0 failed, 0 skipped, 1 flaky"
    count, seconds = running.run("unsteady", shell(script), counted_line)
    assert (count.passed, count.failed, count.skipped, count.flaky) == (3, 0, 0, ["some.test"])
    exit_code = report([("unsteady", count, seconds)])
    said = capsys.readouterr().out
    assert exit_code == 0
    assert "0 skipped    1 flaky" in said
    assert "Flaky, failed and then passed alone:\n  unsteady: some.test\n" in said
    assert said.endswith("\n3 passed, 0 failed, 0 skipped, 1 flaky\n")


def test_a_suite_whose_only_test_is_flaky_has_run_a_test():
    script = "echo flaky some.test; echo 0 passed, 0 failed, 0 skipped, 1 flaky"
    count, _ = running.run("unsteady", shell(script), counted_line)
    assert (count.passed, count.failed, count.flaky) == (0, 0, ["some.test"])
