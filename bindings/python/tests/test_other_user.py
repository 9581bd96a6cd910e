"""A second user of the same shared memory has access where it was given, and nowhere else."""

import os

import numpy as np
import pytest

import shmarray
from conftest import Peer

NOBODY = 65534
BECOME_NOBODY = f"""
import fcntl, os, struct  # now: where Python lies, not everybody may read
os.setgroups([])
os.setgid({NOBODY})
os.setuid({NOBODY})

def refused(call, *arguments, **options):
    try:
        call(*arguments, **options)
    except Exception as error:
        return [type(error).__name__, str(error)]
    return ["no error", ""]
"""


@pytest.fixture
def everybodys(directory):
    """SHMARRAY_DIR as the system's shared memory is:

    everybody may make files, and unlink their own.
    """
    directory.chmod(0o1777)
    return directory


@pytest.fixture
def nobody(everybodys):
    """Another process, of a user without rights, who may enter the directory."""
    assert everybodys.stat().st_mode & 0o7 == 0o7
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    other = Peer()
    other.run(BECOME_NOBODY)
    yield other
    if other.process.poll() is None:
        other.leave()


def test_another_user_cannot_attach_by_handle_or_name(nobody):
    a = shmarray.array(np.arange(5), name="series")
    for text in (str(shmarray.handle(a)), "series"):
        for readonly in (False, True):
            call = "answer = refused(shmarray.attach, text, readonly=readonly)"
            kind, said = nobody.run(call, text=text, readonly=readonly)
            assert (kind, "ermission denied" in said or f"not to user {NOBODY}" in said) == (
                "PermissionError",
                True,
            )
    assert a.tolist() == [0, 1, 2, 3, 4]


def test_another_user_cannot_take_a_name_away_nor_have_it(nobody):
    a = shmarray.full(3, 7, name="series")
    assert nobody.run("answer = refused(shmarray.unlink, 'series')")[0] == "PermissionError"
    assert nobody.run("answer = refused(shmarray.zeros, 3, name='series')")[0] == "FileExistsError"
    assert shmarray.attach("series").tolist() == a.tolist() == [7, 7, 7]


def test_another_user_cannot_sweep_away_what_is_held(nobody, peer, files):
    peer.run("a = shmarray.full(3, 7, name='series'); b = shmarray.full(1 << 18, 8)")
    a = shmarray.full(3, 9)
    before = files()
    for _ in range(3):
        assert nobody.run("answer = shmarray.sweep()") == [0, 0]
        assert files() == before
    assert peer.run("answer = [a.tolist(), b[:2].tolist()]") == [[7] * 3, [8] * 2]
    assert (shmarray.attach("series").tolist(), a.tolist()) == ([7] * 3, [9] * 3)


def test_memory_of_dead_processes_is_given_back_only_by_their_users_sweep(nobody, peer, files):
    shmarray.sweep()
    peer.run("a = shmarray.full(1 << 18, 8)")
    before = files()
    peer.kill()
    assert nobody.run("answer = shmarray.sweep()") == [0, 0]
    assert files() == before
    assert shmarray.sweep().segments > 0
    assert files() == []


def test_another_user_sees_no_arrays_of_others(nobody):
    a = shmarray.full(3, 7, name="series")
    own = nobody.run(
        "mine = shmarray.zeros(4, name='mine'); answer = [info.name for info in "
        "shmarray.segments()]"
    )
    assert (own, a.tolist()) == (["mine"], [7] * 3)


def test_two_users_have_arrays_side_by_side(nobody, files):
    a = shmarray.full(3, 7)
    before = files()
    code = (
        "mine = shmarray.full(3, 1); again = shmarray.attach(str(shmarray.handle(mine))); answer "
        "= again.tolist()"
    )
    assert nobody.run(code) == [1] * 3
    nobody.run("del mine, again")
    assert (files(), a.tolist()) == (before, [7] * 3)


def test_a_name_taken_by_another_user_finds_no_array(nobody):
    nobody.run("mine = shmarray.full(3, 1, name='series', mode=0o666)")
    with pytest.raises(PermissionError, match=str(NOBODY)):
        shmarray.attach("series")
    with pytest.raises(FileExistsError, match="series"):
        shmarray.zeros(3, name="series")


SHARED = "a = shmarray.attach(text); answer = a.tolist()"


def test_a_mode_lets_another_user_in_by_the_handle(nobody, files):
    a = shmarray.full(3, 7, mode=0o666)
    text = str(shmarray.handle(a))
    assert nobody.run(SHARED, text=text) == [7] * 3
    nobody.run("a[1] = 8")
    a[2] = 9
    assert (a.tolist(), nobody.run("answer = a.tolist()")) == ([7, 8, 9], [7, 8, 9])
    del a
    assert shmarray.sweep().segments == 0
    assert nobody.run("answer = shmarray.attach(text).tolist()", text=text) == [7, 8, 9]
    assert files() != []
    nobody.leave()
    shmarray.sweep()
    assert files() == []


def test_an_array_held_by_another_user_is_given_back_at_that_users_death(nobody, files):
    a = shmarray.full(3, 7, mode=0o666)
    assert nobody.run(SHARED, text=str(shmarray.handle(a))) == [7] * 3
    del a
    assert (shmarray.sweep().segments, files() != []) == (0, True)
    nobody.kill()
    assert shmarray.sweep().segments > 0
    assert files() == []


def test_another_users_end_takes_nothing_from_its_owner(nobody, files):
    a = shmarray.full(3, 7, mode=0o666)
    before = files()
    assert nobody.run(SHARED, text=str(shmarray.handle(a))) == [7] * 3
    nobody.run("del a; shmarray.sweep()")
    assert (shmarray.sweep().segments, files()) == (0, before)
    nobody.kill()
    assert (shmarray.sweep().segments, files(), a.tolist()) == (0, before, [7] * 3)


@pytest.mark.parametrize("mode", [0o644, 0o604])
def test_a_mode_for_reading_gives_no_write_access(mode, nobody, files):
    a = shmarray.full(3, 7, mode=mode)
    text = str(shmarray.handle(a))
    assert nobody.run("answer = refused(shmarray.attach, text)", text=text)[0] == "PermissionError"
    nobody.run("a = shmarray.attach(text, readonly=True)", text=text)
    assert nobody.run("answer = [a.tolist(), a.flags.writeable]") == [[7] * 3, False]
    a[0] = 8
    del a
    assert shmarray.sweep().segments == 0
    assert nobody.run("answer = a.tolist()") == [8, 7, 7]
    nobody.leave()
    shmarray.sweep()
    assert files() == []


def test_a_mode_for_the_group_lets_nobody_else_in(nobody):
    a = shmarray.full(3, 7, mode=0o660)
    assert (
        nobody.run("answer = refused(shmarray.attach, text)", text=str(shmarray.handle(a)))[0]
        == "PermissionError"
    )


def test_only_what_was_shared_by_mode_is_shared(nobody):
    small = [shmarray.full(3, 7, mode=mode) for mode in (0o600, 0o666, 0o600, 0o666)]
    texts = [str(shmarray.handle(array)) for array in small]
    code = "answer = [refused(shmarray.attach, text)[0] for text in texts]"
    assert nobody.run(code, texts=texts) == ["PermissionError", "no error"] * 2


PUT_REGISTRY = """
registry = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
os.chmod(path, 0o666)

def lock_kind():
    "The kind of lock that anybody has anywhere in it: F_UNLCK for none."
    everything = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    return struct.unpack("hhqqi4x", fcntl.fcntl(registry, fcntl.F_OFD_GETLK, everything))[0]
"""


@pytest.fixture
def foreign_registry(everybodys, nobody):
    """The second user was there first, and put a file where the first user's registry belongs."""
    nobody.run(PUT_REGISTRY, path=str(everybodys / f"shmarray-registry-{os.geteuid()}"))


@pytest.mark.usefixtures("foreign_registry")
def test_a_registry_that_another_user_put_there_loses_nothing(peer, files):
    peer.run("a = shmarray.full(3, 7, name='series'); b = shmarray.full(1 << 18, 8)")
    before = files()
    assert (shmarray.sweep().segments, files()) == (0, before)
    assert shmarray.attach("series").tolist() == [7] * 3
    shmarray.unlink("series")
    peer.kill()
    shmarray.sweep()
    assert files() == []


@pytest.mark.usefixtures("foreign_registry")
def test_a_registry_that_another_user_put_there_is_not_trusted(nobody, peer):
    """A user who locks bytes of an own file could make us wait for it forever."""
    peer.run("a = shmarray.full(3, 7)")
    assert nobody.run("answer = lock_kind() == fcntl.F_UNLCK")
