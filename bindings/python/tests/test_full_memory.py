"""Full shared memory: an error with the facts, never a bus error, and nothing half-made.

In a small file system, and in children, so that a bus error would end no more than one test.
"""

import os
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest

import shmarray
from conftest import files_in, run_forked

SMALL = 4 << 20
SIZES = {"8 B": 8, "4 KiB": 4 << 10, "64 KiB": 64 << 10, "1 MiB": 1 << 20}
FACTS = re.compile(r"shared memory is full: (\d+) bytes asked, (\d+) bytes free in (\S+);")


@pytest.fixture
def small(small_tmpfs):
    """A SHMARRAY_DIR of four mebibytes."""
    return small_tmpfs(f"size={SMALL}")


def free_bytes(directory):
    facts = os.statvfs(directory)
    return facts.f_bavail * facts.f_frsize


def until_error(directory, make, errors=MemoryError):
    """Creates things until there is no room. The one that failed leaves nothing."""
    made = []
    while True:
        before = files_in(directory)
        try:
            made.append(make())
        except errors as error:
            assert files_in(directory) == before
            return made, str(error)


def until_full(directory, make, errors=MemoryError):
    """Creates arrays until there is no room, each filled with its number. Returns them and the
    error.
    """
    made, said = until_error(directory, make, errors)
    return [painted(array, number) for number, array in enumerate(made)], said


def painted(array, number):
    assert not array.any()
    array[:] = number % 251
    return array


def check_facts(said, size, directory):
    """Asserts that the text has what was asked, what is free, and where."""
    found = FACTS.match(said)
    assert found, said
    asked = int(found[1])
    free = int(found[2])
    assert (found[3], size <= asked, free < asked) == (str(directory), True, True), said
    assert free == free_bytes(directory), said
    assert "--shm-size" in said


def check_each_byte(arrays):
    """Asserts that each array has its value in every byte, and takes another one."""
    for number, array in enumerate(arrays):
        assert (array == number % 251).all()
        array[:] = (number + 1) % 251
    for number, array in enumerate(arrays):
        assert (array == (number + 1) % 251).all()


def maker(size, named):
    numbers = iter(range(1 << 30))

    def make():
        name = {"name": f"n{next(numbers)}"} if named else {}
        return shmarray.zeros(size, "u1", **name)

    return make


def fill_drop_and_fill(directory, size, named):
    shmarray.zeros(1)  # makes the registry, which stays
    make = maker(size, named)
    empty = free_bytes(directory)
    made, said = until_full(directory, make)
    check_facts(said, size, directory)
    assert len(made) >= 1
    check_each_byte(made)
    count = len(made)
    del made[::2]
    again, said = until_full(directory, make)
    check_facts(said, size, directory)
    assert len(again) >= 1
    check_each_byte(again)
    assert all((array == (2 * number + 2) % 251).all() for number, array in enumerate(made))
    del made, again
    assert (files_in(directory), free_bytes(directory)) == ([], empty)
    assert len(until_full(directory, make)[0]) == count
    assert files_in(directory) == []


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("named", [False, True], ids=["unnamed", "named"])
def test_memory_fills_with_an_error_keeps_what_is_there_and_has_room_again(size, named, small):
    run_forked(fill_drop_and_fill, small, size, named)


LARGER = [SMALL + 1, 1 << 30, 1 << 40, 1 << 62]


def ask_too_much(directory):
    held = [shmarray.full(1000, 7)]
    before = files_in(directory)
    for size in LARGER:
        for options in ({}, {"name": "large"}, {"name": "large", "persist": True}, {"mode": 0o666}):
            with pytest.raises(MemoryError) as caught:
                shmarray.empty(size, "u1", **options)
            check_facts(str(caught.value), size, directory)
            assert files_in(directory) == before
    held.append(shmarray.full(1000, 8))
    assert [array.sum() for array in held] == [7000, 8000]


def test_an_array_larger_than_all_memory_is_only_an_error(small):
    run_forked(ask_too_much, small)
    assert files_in(small) == []


def fill_with_shared_copies(directory):
    private = np.arange(100_000).reshape(100, 1000).T[::-1]
    made, said = until_error(directory, lambda: shmarray.share(private))
    check_facts(said, private.nbytes, directory)
    assert len(made) >= 2
    assert all((array == private).all() for array in made)


def test_a_copy_that_finds_no_room_leaves_no_half_of_it(small):
    run_forked(fill_with_shared_copies, small)
    assert files_in(small) == []


def attach_where_it_is_full(directory):
    filled = until_full(directory, maker(64 << 10, named=False))[0]
    texts = [str(shmarray.handle(array)) for array in filled]
    code = """
import sys, shmarray
arrays = [shmarray.attach(text) for text in sys.argv[1:]]
print([int(array[-1]) for array in arrays])
for array in arrays:
    array += 1
try:
    shmarray.zeros(64 << 10, "u1")
except MemoryError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, *texts], capture_output=True, text=True, check=False
    )
    values, said = done.stdout.splitlines()
    assert (done.returncode, done.stderr, values) == (
        0,
        "",
        str([number % 251 for number in range(len(filled))]),
    )
    check_facts(said, 64 << 10, directory)
    assert all((array == number % 251 + 1).all() for number, array in enumerate(filled))


def test_others_attach_write_and_are_told_where_it_is_full(small):
    run_forked(attach_where_it_is_full, small)
    assert files_in(small) == []


def drop_a_child_where_it_is_full(directory):
    filled = until_full(directory, maker(64 << 10, named=False))[0]
    before = files_in(directory)

    def work():
        check_each_byte(filled)
        with pytest.raises(MemoryError):
            shmarray.zeros(64 << 10)
        filled.clear()

    run_forked(work)
    assert files_in(directory) == before
    assert all((array == (number + 1) % 251).all() for number, array in enumerate(filled))
    del filled[0]
    assert shmarray.ones(64 << 10, "u1").all()


def test_a_fork_where_it_is_full_holds_and_takes_no_room(small):
    run_forked(drop_a_child_where_it_is_full, small)
    assert files_in(small) == []


SOME_INODES = 21  # one of them is the directory's own


def fill_files_drop_and_fill(directory, size, named):
    make = maker(size, named)
    errors = (MemoryError, OSError)
    made, said = until_full(directory, make, errors)
    assert str(directory) in said
    assert free_bytes(directory) > 30 * size
    check_each_byte(made)
    count = len(made)
    del made[::2]
    again, _ = until_full(directory, make, errors)
    assert len(again) >= 1
    check_each_byte(again)
    assert all((array == (2 * number + 2) % 251).all() for number, array in enumerate(made))
    del made, again
    assert files_in(directory) == []
    assert len(until_full(directory, make, errors)[0]) == count


@pytest.mark.parametrize("named", [False, True], ids=["unnamed", "named"])
@pytest.mark.parametrize(
    "inodes", [SOME_INODES, SOME_INODES + 1]
)  # a name may be what finds no room
def test_a_file_system_without_room_for_files_keeps_what_is_there_and_has_room_again(
    named, inodes, small_tmpfs
):
    directory = small_tmpfs(f"size=64m,nr_inodes={inodes}")
    run_forked(fill_files_drop_and_fill, directory, 1 << 20, named)
    assert files_in(directory) == []


def fill_files(directory, named):
    made, said = until_full(directory, maker(1 << 20, named))
    assert made
    assert str(directory) in said
    assert "no free inode" in said


@pytest.mark.parametrize("named", [False, True], ids=["unnamed", "named"])
@pytest.mark.parametrize("inodes", [SOME_INODES, SOME_INODES + 1])
def test_a_file_system_without_room_for_files_is_a_memory_error(named, inodes, small_tmpfs):
    run_forked(fill_files, small_tmpfs(f"size=64m,nr_inodes={inodes}"), named)


def warn_of_copies():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        shmarray.dumps(np.zeros(SMALL))  # eight times what there is
    [warning] = caught
    assert "inode" not in str(warning.message)
    assert warning.filename == __file__


@pytest.mark.usefixtures("small")
def test_the_warning_of_copies_names_a_line_of_the_program():
    run_forked(warn_of_copies)


def use_where_no_registry_fits(directory):
    with pytest.raises(MemoryError, match=str(directory)):
        shmarray.zeros(3)
    assert shmarray.sweep().segments == 0


def test_a_file_system_without_room_for_even_the_registry_is_full(small_tmpfs):
    directory = small_tmpfs("size=1m,nr_inodes=2")
    (directory / "theirs").touch()
    run_forked(use_where_no_registry_fits, directory)
    assert files_in(directory) == ["theirs"]


def hold_beside_what_is_no_registry():
    a = shmarray.full(100, 7)
    text = str(shmarray.handle(a))
    code = (
        "import sys, shmarray\nprint(shmarray.attach(sys.argv[1]).sum(), shmarray.sweep().segments)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, text], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("700 0\n", "")
    assert shmarray.attach(text).sum() == 700


def test_arrays_are_held_where_the_registrys_name_is_taken(directory):
    (directory / f"shmarray-registry-{os.geteuid()}").mkdir()
    run_forked(hold_beside_what_is_no_registry)
    shmarray.sweep()
    assert files_in(directory) == []
