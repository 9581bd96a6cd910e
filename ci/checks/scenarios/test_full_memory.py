"""Full shared memory: an error with the facts, never a bus error, and nothing half-made."""

import os
import re

import pytest
from conftest import files_in

SMALL = 4 << 20
SIZES = {"8 B": 8, "4 KiB": 4 << 10, "64 KiB": 64 << 10, "1 MiB": 1 << 20}
NO_SPACE = re.compile(r"error \S*(MemoryError|ENOSPC|NoSpace|NO_SPACE|no_space) ")
FACTS = re.compile(r"shared memory is full: (\d+) bytes asked, (\d+) bytes free in (\S+);")


def free_bytes(directory):
    facts = os.statvfs(directory)
    return facts.f_bavail * facts.f_frsize


def check_facts(answer, size, directory):
    """Asserts that the error has what was asked, what is free, and where."""
    found = FACTS.search(answer)
    assert NO_SPACE.match(answer), answer
    assert found, answer
    asked, free = int(found[1]), int(found[2])
    assert (found[3], size <= asked, free < asked) == (str(directory), True, True), answer
    assert free == free_bytes(directory), answer
    assert "--shm-size" in answer


class Filled:
    """A process that makes arrays until there is no room for one more."""

    def __init__(self, scenario, size, named=False):
        self.process, self.directory = scenario.start(), scenario.directory
        self.size, self.named, self.number, self.keys = size, named, 0, []

    def fill(self):
        """Returns the error. The array that failed leaves nothing; each other has its number."""
        more, errors = [], 0
        while errors < 2:  # Ruby's collector may find one more dropped array after the first
            before = files_in(self.directory)
            answer = self.make()
            if answer.startswith("ok "):
                more.append(self.number)
                errors = 0
            else:
                errors += 1
        assert files_in(self.directory) == before
        for number in more:
            self.process.do(f"is k{number} 0", f"fill k{number} {number}")
        self.keys += more
        return answer, len(more)

    def make(self):
        self.number += 1
        name = f" n{self.number}" if self.named else ""
        return self.process.ask(f"make k{self.number} {self.size // 8} 0{name}")

    def drop_every_second(self):
        for number in self.keys[::2]:
            self.process.do(f"drop k{number}")
        self.keys = self.keys[1::2]

    def check(self):
        assert self.process.do("check") == str(len(self.keys))


def fill_drop_and_fill(scenario, size, named, check):
    filled = Filled(scenario, size, named)
    answer, count = filled.fill()
    check(answer)
    assert count >= 1
    filled.check()
    filled.drop_every_second()
    answer, more = filled.fill()
    check(answer)
    assert more >= 1
    filled.check()
    assert filled.process.end("exit") == 0
    assert files_in(scenario.directory) == []
    return count


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("named", [False, True], ids=["unnamed", "named"])
def test_memory_fills_with_an_error_keeps_what_is_there_and_has_room_again(size, named, small):
    scenario = small(f"size={SMALL}")
    first = scenario.start()
    first.do("make a 1 1")  # makes the registry, which stays
    assert first.end("exit") == 0
    empty = free_bytes(scenario.directory)

    def check(answer):
        check_facts(answer, size, scenario.directory)

    count = fill_drop_and_fill(scenario, size, named, check)
    assert free_bytes(scenario.directory) == empty
    assert Filled(scenario, size, named).fill()[1] == count


@pytest.mark.parametrize("named", [False, True], ids=["unnamed", "named"])
@pytest.mark.parametrize("inodes", [21, 22])  # a name may be what finds no room
def test_a_file_system_without_room_for_files_keeps_what_is_there_and_has_room_again(
    named, inodes, small
):
    scenario = small(f"size=64m,nr_inodes={inodes}")

    def check(answer):
        assert NO_SPACE.match(answer), answer
        assert str(scenario.directory) in answer
        assert "no free inode" in answer

    count = fill_drop_and_fill(scenario, 1 << 20, named, check)
    assert Filled(scenario, 1 << 20, named).fill()[1] == count


def test_an_array_larger_than_all_memory_is_only_an_error(small):
    scenario = small(f"size={SMALL}")
    process = scenario.start()
    process.do("make a 1000 7")
    before = files_in(scenario.directory)
    for size in (SMALL + 8, 1 << 30, 1 << 40, 1 << 60):
        for options in ("", " large", " large 600 1", " - 666"):
            answer = process.ask(f"make b {size // 8} 0{options}")
            check_facts(answer, size, scenario.directory)
            assert files_in(scenario.directory) == before
    process.do("make b 1000 8")
    assert process.do("check") == "2"


def test_a_copy_that_finds_no_room_leaves_no_half_of_it(small):
    scenario = small(f"size={SMALL}")
    if scenario.name == "ruby":
        pytest.skip("Ruby has no private arrays without Numo")
    process, count = scenario.start(), 0
    before = files_in(scenario.directory)
    while (answer := process.ask(f"share a{count} 100000 {count + 1}")).startswith("ok "):
        before, count = files_in(scenario.directory), count + 1
    check_facts(answer, 800_000, scenario.directory)
    assert files_in(scenario.directory) == before
    assert count >= 2
    assert process.do("check") == str(count)


def test_a_fork_where_it_is_full_holds_and_takes_no_room(small):
    scenario = small(f"size={SMALL}")
    filled = Filled(scenario, 64 << 10)
    filled.fill()
    before = files_in(scenario.directory), free_bytes(scenario.directory)
    child = scenario.fork(filled.process)
    assert child.do("check") == str(len(filled.keys))
    for number in filled.keys:
        child.do(f"fill k{number} {number + 1}")
    check_facts(child.ask("make more 8192 0"), 64 << 10, scenario.directory)
    assert child.end("exit") == 0
    assert (files_in(scenario.directory), free_bytes(scenario.directory)) == before
    for number in filled.keys:
        filled.process.do(f"is k{number} {number + 1}")
    filled.process.do(f"drop k{filled.keys[0]}", "make more 8192 1")


def test_others_attach_write_and_get_the_error_where_it_is_full(small):
    scenario = small(f"size={SMALL}")
    filled, other = Filled(scenario, 64 << 10), scenario.start()
    filled.fill()
    for number in filled.keys:
        other.do(f"attach a rw {filled.process.do(f'handle k{number}')}", f"is a {number}")
        other.do(f"fill a {number + 1}")
        filled.process.do(f"is k{number} {number + 1}")
    check_facts(other.ask("make more 8192 0"), 64 << 10, scenario.directory)


def test_threads_that_make_and_drop_where_it_is_full_keep_what_is_there(small):
    scenario = small(f"size={SMALL}")
    filled = Filled(scenario, 256 << 10)
    filled.fill()
    filled.process.do(f"drop k{filled.keys.pop()}")
    filled.process.do("threads 3")
    while int(filled.process.do("rounds")) < 20:
        pass
    filled.process.do("threads 0")
    filled.check()


def test_a_file_system_without_room_for_even_the_registry_is_full(small):
    scenario = small("size=1m,nr_inodes=2")
    (scenario.directory / "shmarray-registry-not").touch()
    process = scenario.start()
    answer = process.ask("make a 3 7")
    assert NO_SPACE.match(answer), answer
    assert str(scenario.directory) in answer
    assert process.do("sweep") == "0"


def test_arrays_are_held_where_the_registrys_name_is_taken(scenario, directory):
    (directory / f"shmarray-registry-{os.geteuid()}").mkdir()
    holder, other = scenario.start(), scenario.start()
    other.do(f"attach a ro {holder.do('make a 100 7')}", "is a 7")
    assert other.do("sweep") == "0"
    holder.do("is a 7")
    assert holder.end("exit") == 0
    assert other.end("exit") == 0
    scenario.sweep()
