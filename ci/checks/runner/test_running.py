"""Tests of the runner: a suite is watched, counted and reported."""

import fcntl
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys

import junit
import processes
import pytest
import running
from report import report
from running import Suite

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
PASSES = "echo '<testsuite><testcase name=\"a\"/></testsuite>' > {junit}/a.xml"
FAILS = "echo '<testsuite><testcase name=\"b\"><failure/></testcase></testsuite>' > {junit}/b.xml"


@pytest.fixture(autouse=True)
def logs(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "LOGS", tmp_path)
    monkeypatch.setattr(running, "JUNIT", tmp_path / "junit")
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
    probe = python("print(open('/proc/self/status').read())")
    run_with_odd_signals(f"""
import pathlib, running
running.LOGS = running.JUNIT = pathlib.Path({str(logs)!r})
running.expect_children()
running.run(running.Suite("probe", {probe}))
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
    dies = shell("bash -c 'kill -HUP $$'; [ $? -eq 129 ]")
    printed = run_with_odd_signals(f"""
import pathlib, running
running.LOGS = running.JUNIT = pathlib.Path({str(logs)!r})
running.expect_children()
running.run(running.Suite("hangs up", {dies}, is_one_check=True))
""")
    assert "1 passed    0 failed    0 skipped" in printed


def test_under_nohup_the_python_tests_alone_ignore_no_signal(tmp_path):
    (tmp_path / "test_it.py").write_text(
        "import signal\n\n"
        "def test_it():\n    assert signal.getsignal(signal.SIGHUP) == signal.SIG_DFL\n"
    )
    command = ["nohup", sys.executable, "-m", "pytest", "-q", "-p", "conftest", tmp_path]
    environment = os.environ | {"PYTHONPATH": str(running.ROOT / "bindings/python/tests")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert "1 passed" in done.stdout


def outcome(script, **options):
    count = running.run(Suite("outcome", shell(script), **options)).count
    return count.passed, len(count.failed)


def test_a_suite_that_fails_or_runs_nothing_has_failed(capsys):
    outcomes = {
        PASSES: (1, 0),
        f"{PASSES}; {FAILS}; exit 1": (1, 1),
        f"{FAILS}": (0, 1),
        f"{PASSES}; exit 1": (1, 1),
        f"{PASSES}; kill -9 $$": (1, 1),
        f"{PASSES}; echo '<testsuite>' > {{junit}}/cut-off.xml": (1, 1),
        "echo '<testsuite/>' > {junit}/a.xml": (0, 1),
        "true": (0, 1),
    }
    for script, expected in outcomes.items():
        assert outcome(script) == expected, script
    assert "FAILED this suite ran no test" in capsys.readouterr().out


def test_a_command_that_is_the_only_test_passes_or_fails():
    assert outcome("true", is_one_check=True) == (1, 0)
    assert outcome("exit 3", is_one_check=True) == (0, 1)


def test_a_command_that_is_not_there_has_failed():
    count = running.run(Suite("absent", ["no-such-command"], is_one_check=True)).count
    assert (count.passed, len(count.failed)) == (0, 1)


def test_processor_time_of_orphans_counts(logs):
    burn = "import time\nwhile time.process_time() < 0.5: pass"
    (logs / "orphan").write_text(f"({sys.executable} -c '{burn}'; echo > end) &")
    script = f"cd {logs}; mkfifo end; bash orphan; read < end"
    assert running.run(Suite("burns", shell(script), is_one_check=True)).used >= 0.5


def test_processes_that_a_suite_leaves_running_are_killed_and_named(logs):
    command = shell("setsid sleep infinity & echo $!")
    count = running.run(Suite("leaves", command, is_one_check=True)).count
    log = (logs / "leaves.log").read_text()
    pid = int(log.split()[0])
    assert not pathlib.Path(f"/proc/{pid}").exists()
    assert f"left running, and killed: {pid}" in log
    assert (count.passed, count.failed) == (1, [])


def test_when_the_starter_is_killed_the_suite_ends_with_all_it_started(logs):
    nested = shell("setsid sleep infinity & echo $$ $! > pids.new; mv pids.new pids; wait")
    code = f"""
import os, pathlib, running, sys
running.LOGS = running.JUNIT = running.ROOT = pathlib.Path({str(logs)!r})
running.run(running.Suite("nested", {nested}))
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
    """A watch that checks often."""
    monkeypatch.setattr(running, "CHECK_SECONDS", 0.05)
    monkeypatch.setattr(running, "SILENT_CHECKS", 4)
    monkeypatch.setattr(running, "STUCK_CHECKS", 10)


@pytest.mark.usefixtures("impatient")
def test_a_suite_that_waits_for_what_does_not_come_is_shown_killed_and_failed(capsys):
    script = f"{PASSES}; mkfifo never; echo the last words; read < never"
    count = running.run(Suite("stuck", shell(f"cd {running.LOGS}; {script}"))).count
    said = capsys.readouterr().out
    assert (count.passed, len(count.failed)) == (1, 1)
    assert "stuck is still running:" in said
    assert "stuck waits for what does not come, and is killed:" in said
    assert "wait_for_partner" in said  # the function of the kernel that opens a fifo
    assert "the last words" in said


def test_a_cargo_that_waits_for_another_build_is_no_stuck_process(tmp_path):
    (tmp_path / "cargo").symlink_to(shutil.which("flock"))
    lock = tmp_path / "lock"
    with open(lock, "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        for name, waits in (("cargo", True), ("flock", False)):
            program = shutil.which(name, path=f"{tmp_path}:{os.environ['PATH']}")
            waiting = subprocess.Popen([program, lock, "true"])
            while "lock" not in pathlib.Path(f"/proc/{waiting.pid}/wchan").read_text():
                pass
            assert processes.waits_for_a_build(waiting.pid) == waits
            waiting.kill()
            waiting.wait()


@pytest.mark.usefixtures("impatient")
def test_a_suite_that_works_in_silence_is_shown_and_not_killed(capsys, monkeypatch, logs):
    checks = []
    monkeypatch.setattr(
        running.Watch,
        "check",
        lambda watch, check=running.Watch.check: counted(checks, logs) or check(watch),
    )
    waits = f"import pathlib\nwhile not pathlib.Path({str(logs / 'enough')!r}).exists(): pass\n"
    count = running.run(Suite("works", python(waits), is_one_check=True)).count
    assert (count.passed, count.failed) == (1, [])
    assert "works is still running:" in capsys.readouterr().out


def counted(checks, logs):
    """Ends the work after three times as many checks as kill a stuck suite."""
    checks.append(None)
    if len(checks) == 3 * running.STUCK_CHECKS:
        (logs / "enough").touch()


def test_a_suite_that_cannot_begin_in_time_is_skipped_and_the_report_says_why(tmp_path, capsys):
    result = running.run(Suite("late", shell(f"touch {tmp_path}/begun")), begin_before=0)
    assert str(result.count) == "0 passed, 0 failed, 1 skipped"
    assert not (tmp_path / "begun").exists()
    assert report([result]) == 1
    assert "1 × late: no time was left to begin it\n" in capsys.readouterr().out


def test_the_report_counts_each_form_and_says_once_more_what_failed(capsys):
    well = running.run(Suite("well", shell(f"echo fine; {PASSES}")))
    badly = running.run(Suite("badly", shell(f"echo alas; {PASSES}; {FAILS}"), form="ci"))
    assert "alas" in capsys.readouterr().out
    assert report([well, badly]) == 1
    said = capsys.readouterr().out
    assert "fine" not in said
    assert "badly --ci: 1 failed\nalas\nFAILED b\n" in said
    assert said.splitlines()[-3:] == [
        "ci/test: 1 passed, 0 failed, 0 skipped",
        "ci/test --ci: 1 passed, 1 failed, 0 skipped",
        "2 passed, 1 failed, 0 skipped",
    ]


def test_a_flaky_test_counts_neither_as_passed_nor_as_failed_and_is_named(capsys):
    close = f"""
import sys; sys.path.insert(0, {str(HERE)!r})
import junit
junit.close("unsteady", [("a.test", "flaky"), ("b\\0", "passed"), ("c", "skipped: no Numo")])
"""
    result = running.run(Suite("unsteady", python(close)))
    assert str(result.count) == "1 passed, 0 failed, 1 skipped, 1 flaky"
    assert report([result]) == 0
    said = capsys.readouterr().out
    assert "1 × unsteady: no Numo" in said
    assert "Flaky, failed and then passed alone:\n  unsteady: a.test\n" in said
    assert said.endswith("\n1 passed, 0 failed, 1 skipped, 1 flaky\n")


def test_a_passed_test_that_says_why_it_could_not_run_is_skipped():
    case = "<testcase name='a'><system-out>\nskipped a: no huge pages\n</system-out></testcase>"
    script = f"echo \"<testsuite>{case}<testcase name='b'/></testsuite>\" > {{junit}}/a.xml"
    count = running.run(Suite("rust", shell(script))).count
    assert (count.passed, count.reasons) == (1, ["a: no huge pages"])


def test_a_script_counts_its_cases_and_what_its_programs_wrote(tmp_path, capsys):
    (tmp_path / "cases").write_text("passed\tone\nfailed\ttwo\nskipped: Numo\tthree\n")
    junit.write(tmp_path / "program.xml", [("four", "passed")])
    assert junit.close_script("script", tmp_path) == 1
    said = capsys.readouterr().out
    assert said == "FAILED: two\nscript: 2 passed, 1 failed, 1 skipped\n"
