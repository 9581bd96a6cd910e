"""Fds: every one closed behind the library's back, few of them, and files of limited size."""

import os
import resource

import pytest


def hold(process):
    """Makes arrays and views of every kind, and returns the handle of one."""
    handle = process.do("make a 12 7")
    process.do("make named 12 8 named", "view view a", "attach reader ro named")
    return handle


def does_everything(process, handle):
    """Calls each kind of function that a program uses."""
    process.do(f"attach again rw {handle}", "fill again 37", "is view 37", "fill again 7")
    other = process.do("make second 100 9 second")
    process.do(f"attach other ro {other}", "drop second", "is other 9")
    process.do("unlink second", "sweep", "drop other again", "attach again rw named")
    process.do("is reader 8", "is again 8", "drop again")


def is_held(scenario, handle, files):
    """Asserts that another process that attaches, drops and sweeps leaves the array in place."""
    before = files()
    for _ in range(3):
        other = scenario.start()
        other.do(f"attach a rw {handle}", "is a 7", "drop a")
        assert other.do("sweep") == "0"
        assert other.end("exit") == 0
    assert files() == before


def test_a_process_without_fds_holds_makes_and_gives_back(scenario, files):
    for how, status in scenario.endings().items():
        process = scenario.start()
        handle = hold(process)
        process.do("close_fds 3")
        does_everything(process, handle)
        is_held(scenario, handle, files)
        process.do("close_fds 3")
        does_everything(process, handle)
        assert process.end(how) == status
        scenario.swept_after(how)


@pytest.mark.parametrize("first", ["make b 5 7", "attach b ro {handle}", "sweep"])
def test_the_first_use_may_come_after_every_fd_was_closed(first, scenario):
    maker, process = scenario.start(), scenario.start()
    handle = maker.do("make a 5 7")
    process.do("close_fds 3", first.format(handle=handle))
    does_everything(process, hold(process))
    maker.do("is a 7")


def test_fds_closed_again_and_again_cost_nothing(scenario):
    process = scenario.start()
    for turn in range(1, 30):
        process.do("close_fds 3")
        handle = process.do(f"make a 10 {turn}")
        process.do("close_fds 3", f"attach b ro {handle}", "close_fds 3", f"is b {turn}", "sweep")


def test_a_child_without_fds_outlives_its_parent(scenario, files):
    for how, status in scenario.endings().items():
        parent = scenario.start()
        handle = hold(parent)
        parent.do("close_fds 3")
        child = scenario.fork(parent)
        assert parent.end(how) == status
        is_held(scenario, handle, files)
        child.do("close_fds 3")
        does_everything(child, handle)
        assert child.end(how) == status
        scenario.swept_after(how)


def test_forks_of_a_process_without_fds_hold_and_give_back(scenario):
    parent = scenario.start()
    handle = hold(parent)
    parent.do("close_fds 3")
    for how, status in scenario.endings().items():
        child = scenario.fork(parent)
        child.do("close_fds 3")
        does_everything(child, handle)
        assert child.end(how) == status
        scenario.sweep()
        does_everything(parent, handle)


def fds_of(process):
    return len(os.listdir(f"/proc/{process.pid}/fd"))


def test_arrays_keep_no_fd(scenario):
    process = scenario.start()
    does_everything(process, hold(process))
    before = fds_of(process)
    for number in range(100):
        process.do(f"make kept{number} 100000 7")
    does_everything(process, process.do("handle a"))
    assert fds_of(process) <= before


def test_a_process_without_a_free_fd_gets_an_error_and_goes_on(scenario):
    process = scenario.start()
    handle = hold(process)
    limits = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (3, limits[1]))
    assert process.ask("make large 262144 7").startswith("error ")
    process.do("is a 7", "fill a 7")
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, limits)
    process.do("make large 262144 7")
    does_everything(process, handle)


LIMIT = 1 << 20


@pytest.mark.parametrize("name", ["", " large"])
def test_an_array_beyond_the_limit_of_file_sizes_is_an_error_and_no_death(name, scenario):
    process = scenario.start()
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (LIMIT, resource.RLIM_INFINITY))
    answer = process.ask(f"make large {LIMIT} 7{name}")
    assert answer.startswith("error ")
    assert "memory is full" not in answer
    process.do(f"make small {LIMIT // 16} 7", "is small 7")
