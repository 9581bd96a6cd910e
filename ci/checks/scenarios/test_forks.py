"""Forks: in whatever order and way the processes of a family end, the others keep what they hold,
and nothing else is left.
"""

import itertools
import os
import signal


def hold(process):
    """Makes an array and three further ways to reach its memory. Returns its handle."""
    handle = process.do("make a 12 1")
    process.do("view view a", f"attach reader ro {handle}", f"attach again rw {handle}")
    return handle


def sees(process, value, handle):
    """Writes by one array and reads by all of them, and by the handle."""
    process.do(f"fill a {value}", f"attach new rw {handle}")
    for key in ("a", "view", "reader", "again", "new"):
        process.do(f"is {key} {value}")
    process.do("drop new")


def is_held(scenario, handle, value):
    """Asserts that another process finds the array, and that no sweep takes it."""
    assert scenario.sweep() == 0
    other = scenario.start()
    other.do(f"attach a ro {handle}", f"is a {value}")
    assert other.end("exit") == 0
    assert scenario.sweep() == 0


def test_a_child_keeps_its_arrays_when_its_parent_ends_first(scenario):
    for how, status in scenario.endings().items():
        parent = scenario.start()
        handle = hold(parent)
        child = scenario.fork(parent)
        assert parent.end(how) == status
        is_held(scenario, handle, 1)
        sees(child, 77, handle)
        assert child.end(how) == status
        scenario.swept_after(how)


def test_a_parent_keeps_its_arrays_when_its_child_ends_first(scenario):
    for how, status in scenario.endings().items():
        parent = scenario.start()
        handle = hold(parent)
        child = scenario.fork(parent)
        sees(child, 77, handle)
        assert child.end(how) == status
        is_held(scenario, handle, 77)
        parent.do("is view 77")
        sees(parent, 78, handle)
        assert parent.end(how) == status
        scenario.swept_after(how)


def test_parent_child_and_grandchild_end_in_any_order(scenario):
    """Each of the three ends in another way, which changes from order to order."""
    ways = scenario.endings()
    for turn, order in enumerate(itertools.permutations(range(3))):
        endings = [list(ways)[(turn + number) % len(ways)] for number in range(3)]
        generations = [scenario.start()]
        handle = hold(generations[0])
        for _ in range(2):
            generations.append(scenario.fork(generations[-1]))
        for number, process in enumerate(generations):
            process.do(f"make own 5 {number + 1}")
        for number in order:
            scenario.sweep()  # gives back only what the dead held
            sees(generations[number], 70 + number, handle)
            generations[number].do(f"is own {number + 1}")
            assert generations[number].end(endings[number]) == ways[endings[number]]
        scenario.swept_after(*endings)


def test_forks_beside_threads_leave_both_sides_working(scenario, files):
    parent, endings = scenario.start(), list(scenario.endings().items())
    handle = hold(parent)
    parent.do("threads 3")
    turn = 0
    while turn < 24 or int(parent.do("rounds")) < 30:
        how, status = endings[turn % len(endings)]
        child = scenario.fork(parent)
        sees(child, turn + 1, handle)
        child.do(f"make own 1000 {turn + 1}", f"is own {turn + 1}")
        assert child.end(how) == status
        parent.do(f"is view {turn + 1}")
        turn += 1
    parent.do("threads 0")
    sees(parent, 99, handle)
    assert parent.end("exit") == 0
    scenario.sweep()
    assert files() == []


def test_a_process_may_exit_while_its_threads_make_and_drop(scenario, files):
    scenario.is_silent = False  # a thread may say that the exit has given everything back
    for _ in range(5):
        process = scenario.start()
        process.do("threads 3")
        while int(process.do("rounds")) < 20:
            pass
        assert process.end("exit") == 0
    scenario.sweep()  # what a thread made during the exit
    assert files() == []


def test_forty_generations_hold_at_once_and_leave_nothing(scenario):
    generations = [scenario.start()]
    handle = hold(generations[0])
    for _ in range(39):
        generations.append(scenario.fork(generations[-1]))
    sees(generations[-1], 40, handle)
    for number, process in enumerate(generations):
        process.do("is reader 40")
        assert process.end("_exit" if number % 2 else "exit") == 0
    scenario.sweep()


def test_a_child_that_drops_everything_takes_nothing_from_its_parent(scenario, files):
    parent = scenario.start()
    handle = hold(parent)
    before = files()
    child = scenario.fork(parent)
    child.do("drop", "sweep")
    assert (scenario.sweep(), files()) == (0, before)
    assert child.end("exit") == 0
    sees(parent, 8, handle)


def test_a_child_keeps_what_its_parent_drops(scenario, files):
    parent = scenario.start()
    handle = hold(parent)
    child = scenario.fork(parent)
    parent.do("drop")
    is_held(scenario, handle, 1)
    sees(child, 7, handle)
    assert parent.end("exit") == 0
    assert files() != []
    assert child.end("exit") == 0
    assert files() == []


def test_a_process_that_is_stopped_holds_on(scenario):
    process = scenario.start()
    handle = hold(process)
    os.kill(process.pid, signal.SIGSTOP)
    os.waitpid(process.pid, os.WUNTRACED)
    is_held(scenario, handle, 1)
    os.kill(process.pid, signal.SIGCONT)
    sees(process, 3, handle)
