"""Starts and ends: whoever ends, however, gives back what it held, and a started program holds
nothing.
"""

import os
import re
import select
import shutil
import signal

import pytest

NOT_FOUND = re.compile(r"error \S*(FileNotFound|ENOENT|NotFound|NOT_FOUND|not_found)")
EXISTS = re.compile(r"error \S*(FileExists|EEXIST|Exists|EXISTS|already_exists)")
SIGNALS = ("TERM", "INT", "HUP", "ABRT", "KILL", "QUIT", "SEGV")


def test_however_a_process_ends_what_it_held_is_given_back(scenario, files):
    for how, status in scenario.endings().items():
        process = scenario.start()
        process.do("make a 5 7", "make large 262144 8", "make named 5 9 series", "view v large")
        assert process.end(how) == status
        scenario.swept_after(how)


def test_a_process_whose_input_ends_gives_back_what_it_held(scenario, files):
    process = scenario.start()
    process.do("make a 5 7", "view v a")
    assert process.leave() == 0
    assert files() == []


@pytest.mark.parametrize("name", SIGNALS)
def test_memory_of_a_process_ended_by_a_signal_is_given_back_by_a_sweep(name, scenario, files):
    number = getattr(signal, f"SIG{name}")
    process = scenario.start()
    process.do("make a 262144 7", "view v a")
    # Rust's own handler lets the first SIGSEGV pass.
    while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        os.kill(process.pid, number)
    assert process.status() != 0
    scenario.sweep()
    assert files() == []


def test_an_attached_array_outlives_its_maker(scenario, files):
    for how, status in scenario.endings().items():
        maker, other = scenario.start(), scenario.start()
        handle = maker.do("make a 5 7")
        other.do(f"attach a rw {handle}")
        assert maker.end(how) == status
        assert scenario.sweep() == 0
        other.do("is a 7", "fill a 8", "is a 8")
        assert other.end(how) == status
        scenario.swept_after(how)


def test_the_maker_may_let_go_while_another_holds(scenario, files):
    maker, other = scenario.start(), scenario.start()
    other.do(f"attach a rw {maker.do('make a 5 7')}")
    maker.do("drop")
    assert maker.end("exit") == 0
    other.do("is a 7")
    assert files() != []


def test_a_handle_keeps_nothing(scenario, files):
    maker, other = scenario.start(), scenario.start()
    handle = maker.do("make a 5 7")
    assert maker.end("exit") == 0
    assert files() == []
    assert NOT_FOUND.match(other.ask(f"attach a rw {handle}"))


def test_a_name_finds_an_array_while_somebody_holds_it(scenario, files):
    maker, other = scenario.start(), scenario.start()
    maker.do("make a 5 7 series")
    other.do("attach a ro series", "is a 7")
    assert EXISTS.match(other.ask("make b 5 8 series"))
    assert other.do("segments") == "series"
    assert maker.end("exit") == 0
    assert other.end("exit") == 0
    late = scenario.start()
    assert NOT_FOUND.match(late.ask("attach a ro series"))


def test_unlink_takes_the_name_and_leaves_the_array(scenario):
    maker, other = scenario.start(), scenario.start()
    handle = maker.do("make a 5 7 series")
    other.do("unlink series")
    assert NOT_FOUND.match(other.ask("unlink series"))
    assert NOT_FOUND.match(other.ask("attach b ro series"))
    other.do(f"attach b ro {handle}", "make c 5 8 series", "is b 7")
    maker.do("is a 7")


def test_a_persistent_array_outlives_its_processes_until_it_is_unlinked(scenario, files):
    for how, status in scenario.endings().items():
        maker = scenario.start()
        maker.do("make a 5 7 table 600 1")
        assert maker.end(how) == status
        for _ in range(2):
            assert scenario.sweep() == 0
            other = scenario.start()
            other.do("attach a rw table", "is a 7")
            assert other.end(how) == status
        scenario.sweep()
        last = scenario.start()
        last.do("unlink table")
        assert last.end("exit") == 0
        assert files() == []


@pytest.fixture
def program(tmp_path):
    """A program that says a line and then repeats what it hears."""
    path = tmp_path / "program"
    path.write_text("#!/bin/sh\necho here\nexec cat\n")
    path.chmod(0o755)
    return path


def test_a_process_that_execs_holds_no_longer_though_it_lives(scenario, files, program):
    process, other = scenario.start(), scenario.start()
    handle = process.do("make a 262144 7")
    process.do(f"attach reader ro {handle}")
    process.write(f"exec {program}")
    assert process.read() == "here"
    assert scenario.sweep() == 1
    assert files() == []
    assert NOT_FOUND.match(other.ask(f"attach a rw {handle}"))
    assert process.leave() == 0


def test_an_array_of_a_process_that_execs_stays_with_its_other_holders(scenario, files, program):
    process, other = scenario.start(), scenario.start()
    other.do(f"attach a rw {process.do('make a 262144 7')}")
    process.write(f"exec {program}")
    assert process.read() == "here"
    assert scenario.sweep() == 0
    other.do("is a 7")
    assert other.end("exit") == 0  # the last holder
    assert files() == []
    assert process.leave() == 0


def test_a_start_that_fails_loses_nothing(scenario):
    process = scenario.start()
    handle = process.do("make a 262144 7")
    assert process.ask("exec /there/is/no/such/program").startswith("error ")
    assert scenario.sweep() == 0
    process.do(f"attach again rw {handle}", "is again 7")


def test_a_started_program_holds_nothing_and_takes_nothing(scenario, files, tmp_path):
    ends = [tmp_path / "in", tmp_path / "out"]
    for end in ends:
        os.mkfifo(end)
    hears = os.open(ends[1], os.O_RDONLY | os.O_NONBLOCK)
    says = os.open(ends[0], os.O_RDWR)
    starter = scenario.start()
    starter.do("make a 262144 7", f"spawn {ends[0]} {ends[1]}", "is a 7")
    assert scenario.sweep() == 0
    os.write(says, b"here")
    select.select([hears], [], [])  # a read before it has opened its end would find none
    os.set_blocking(hears, True)
    assert os.read(hears, 4) == b"here"  # it runs: it has no part of its starter's memory
    assert starter.end("exit") == 0
    assert files() == []
    os.close(says)
    assert os.read(hears, 4) == b""
    os.close(hears)


def test_a_daemon_holds_when_its_starter_is_gone_and_gives_back_at_its_end(scenario):
    for how, status in scenario.endings().items():
        starter = scenario.start()
        before = starter.do("make before 5 1")
        daemon = scenario.fork(starter)
        daemon.do("session")
        after = daemon.do("make after 5 2")
        assert starter.end("exit") == 0
        other = scenario.start()
        other.do(f"attach a rw {before}", "fill a 3", f"attach b rw {after}", "fill b 4")
        assert other.end("exit") == 0
        assert scenario.sweep() == 0
        daemon.do("is before 3", "is after 4")
        assert daemon.end(how) == status
        scenario.swept_after(how)


def test_a_directory_that_is_gone_at_the_end_is_no_matter(scenario, directory):
    process = scenario.start()
    gone = directory / "gone"
    gone.mkdir()
    process.do(f"directory {gone}", "make a 5 7 series")
    shutil.rmtree(gone)
    assert process.end("exit") == 0
    assert not gone.exists()
