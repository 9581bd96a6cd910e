"""A second user of the same shared memory has access where it was granted, and nowhere else."""

import fcntl
import os
import re
import struct

import pytest

NOBODY = 65534
PERMISSION = re.compile(r"error \S*(Permission|EACCES|EPERM|NotOwner|PERMISSION|permission)")
EXISTS = re.compile(r"error \S*(FileExists|EEXIST|Exists|EXISTS|already_exists)")


@pytest.fixture
def nobody(scenario):
    """A process of a user without privileges, which has not used the library."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    other = scenario.start()
    other.do(f"user {NOBODY}")
    yield other
    if other.exit_status is None:
        other.do("drop")
    scenario.close()
    scenario.sweep()  # an array that others may read is held by its lock alone


@pytest.fixture
def owner(scenario):
    return scenario.start()


def is_refused(process, handle_or_name):
    for access in ("ro", "rw"):
        answer = process.ask(f"attach b {access} {handle_or_name}")
        assert PERMISSION.match(answer), answer


def test_another_user_cannot_attach_by_handle_or_name(owner, nobody):
    is_refused(nobody, owner.do("make a 5 7 series"))
    is_refused(nobody, "series")
    owner.do("is a 7")


def test_another_user_cannot_take_a_name_away_nor_have_it(owner, nobody):
    owner.do("make a 5 7 series")
    assert PERMISSION.match(nobody.ask("unlink series"))
    assert EXISTS.match(nobody.ask("make b 5 8 series"))
    owner.do("attach again rw series", "is again 7")


def test_another_user_cannot_sweep_away_what_is_held_nor_what_the_dead_left(
    owner, nobody, scenario, files
):
    owner.do("make a 5 7 series", "make b 262144 8")
    before = files()
    assert (nobody.do("sweep"), files()) == ("0", before)
    owner.do("is a 7", "is b 8")
    owner.kill()
    assert (nobody.do("sweep"), files()) == ("0", before)
    assert scenario.sweep() > 0
    assert files() == []


def test_another_user_sees_no_arrays_of_others(owner, nobody):
    owner.do("make a 5 7 series")
    nobody.do("make mine 5 8 mine")
    assert nobody.do("segments") == "mine"


def test_two_users_have_arrays_side_by_side(owner, nobody):
    owner.do("make a 5 7")
    nobody.do(f"attach again rw {nobody.do('make mine 5 8')}", "is again 8")
    assert nobody.end("exit") == 0
    owner.do("is a 7")


def test_a_name_taken_by_another_user_finds_no_array(owner, nobody):
    nobody.do("make mine 5 1 series 666")
    is_refused(owner, "series")
    assert EXISTS.match(owner.ask("make a 5 7 series"))


@pytest.mark.parametrize("mode", ["666", "644", "604"])
def test_a_mode_lets_another_user_in_by_the_handle(mode, owner, nobody, scenario, files):
    handle = owner.do(f"make a 5 7 - {mode}")
    if mode == "666":
        nobody.do(f"attach a rw {handle}", "is a 7", "fill a 8")
        owner.do("is a 8", "drop")
    else:  # for reading alone
        assert PERMISSION.match(nobody.ask(f"attach a rw {handle}"))
        nobody.do(f"attach a ro {handle}", "is a 7")
        owner.do("fill a 8")
    assert owner.end("exit") == 0
    assert scenario.sweep() == 0
    nobody.do("is a 8")
    assert nobody.end("exit") == 0
    scenario.sweep()
    assert files() == []


def test_an_array_held_by_another_user_is_given_back_at_that_users_death(
    owner, nobody, scenario, files
):
    nobody.do(f"attach a rw {owner.do('make a 5 7 - 666')}")
    assert owner.end("exit") == 0
    assert (scenario.sweep(), files() != []) == (0, True)
    nobody.kill()
    assert scenario.sweep() > 0
    assert files() == []


def test_another_users_end_takes_nothing_from_its_owner(owner, nobody, scenario, files):
    handle = owner.do("make a 5 7 - 666")
    before = files()
    nobody.do(f"attach a rw {handle}", "drop a", "sweep", f"attach a rw {handle}")
    nobody.kill()
    assert (scenario.sweep(), files()) == (0, before)
    owner.do("is a 7", f"attach again rw {handle}", "is again 7")
    assert owner.end("exit") == 0
    scenario.sweep()


def test_a_mode_for_the_group_lets_nobody_else_in(owner, nobody):
    is_refused(nobody, owner.do("make a 5 7 - 660"))


def test_only_what_was_shared_by_mode_is_shared(owner, nobody):
    handles = [owner.do(f"make a{n} 5 7 - {mode}") for n, mode in enumerate(("600", "666") * 2)]
    for number, handle in enumerate(handles):
        if number % 2:
            nobody.do(f"attach a{number} rw {handle}")
        else:
            is_refused(nobody, handle)


@pytest.fixture
def foreign_registry(directory, nobody):
    """The second user was there first, and put a file where the first user's registry belongs."""
    path = directory / f"shmarray-registry-{os.geteuid()}"
    registry = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
    os.chmod(path, 0o666)
    os.chown(path, NOBODY, NOBODY)
    yield registry
    os.close(registry)


@pytest.mark.usefixtures("foreign_registry")
def test_a_registry_that_another_user_put_there_loses_nothing(owner, scenario, files):
    owner.do("make a 5 7 series", "make b 262144 8")
    before = files()
    assert (scenario.sweep(), files()) == (0, before)
    other = scenario.start()
    other.do("attach a rw series", "is a 7", "unlink series")
    assert other.end("exit") == 0
    owner.kill()
    scenario.sweep()
    assert files() == []


def test_a_registry_that_another_user_put_there_is_not_trusted(owner, foreign_registry):
    """A user who locks bytes of a file of theirs could make others wait for it without end."""
    owner.do("make a 5 7")
    everything = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    found = fcntl.fcntl(foreign_registry, fcntl.F_OFD_GETLK, everything)
    assert struct.unpack("hhqqi4x", found)[0] == fcntl.F_UNLCK
