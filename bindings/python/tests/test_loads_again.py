"""A message is loaded as often as it was made for, and what it held is given back then, whoever is
killed between.
"""

import os
import pickle
import signal

import numpy as np
import pytest

import shmarray
from shmarray import _dumps
from working import in_child, listed_arrays, sweep_after_deaths

SIZES = {"medium": 50_000, "large": 500_000}
each_size = pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)


def contents(size):
    """One private and one shared array, which only the message holds."""
    return {"private": np.full(size, 7, "u1"), "shared": shmarray.full(3, 5)}


def check(got, size):
    assert (got["private"].tolist(), got["shared"].tolist()) == ([7] * size, [5] * 3)


@each_size
def test_a_message_is_loaded_as_often_as_it_was_made_for(size, files):
    data = shmarray.dumps(contents(size), loads=3)
    for _ in range(3):
        check(shmarray.loads(data), size)
    assert files() == []
    with pytest.raises(
        FileNotFoundError, match=r"2 of the 2 arrays .* loaded 3 times, as it was made for"
    ):
        shmarray.loads(data)


def test_each_loading_has_its_own_of_what_was_private():
    data = shmarray.dumps(np.zeros(500_000, "u1"), loads=3)
    got = [shmarray.loads(data) for _ in range(3)]
    for number, array in enumerate(got):
        array[number] = 1 + number
    assert [array[:3].tolist() for array in got] == [[1, 0, 0], [0, 2, 0], [0, 0, 3]]
    assert not any(map(shmarray.is_shared, got))


def test_a_shared_array_is_the_same_memory_at_each_loading():
    data = shmarray.dumps(shmarray.zeros(3), loads=2)
    one = shmarray.loads(data)
    two = shmarray.loads(data)
    one[0] = 1
    assert two.tolist() == [1, 0, 0]


def test_a_second_loading_of_what_was_made_for_one_says_so():
    data = shmarray.dumps(shmarray.zeros(3))
    assert shmarray.loads(data).tolist() == [0, 0, 0]
    with pytest.raises(
        FileNotFoundError, match=r"loaded once, as it was made for, or it was discarded; .*loads=N"
    ):
        shmarray.loads(data)


@each_size
def test_a_message_that_persists_is_loaded_until_it_is_discarded(size, files):
    data = shmarray.dumps(contents(size), persist=True)
    for _ in range(50):
        check(shmarray.loads(data), size)
    assert [info.tickets for info in listed_arrays()] == [1, 1]
    shmarray.discard(data)
    assert files() == []
    with pytest.raises(FileNotFoundError, match="the message was discarded"):
        shmarray.loads(data)


@pytest.mark.parametrize(
    "way", [{"persist": True}, {"loads": 5}, {}], ids=["persists", "five", "one"]
)
def test_each_message_goes_with_its_senders_family(way, peer, files):
    code = "data = shmarray.dumps([np.ones(100_000), shmarray.ones(3)], **way); answer = data.hex()"
    data = bytes.fromhex(peer.run(code, way=way))
    if way:
        assert shmarray.loads(data)[1].tolist() == [1, 1, 1]
    peer.kill()
    sweep_after_deaths()
    assert files() == []
    with pytest.raises(FileNotFoundError, match="all processes of the sender's family had ended"):
        shmarray.loads(data)


def test_discarding_gives_back_all_loadings_that_are_left(files):
    data = shmarray.dumps(contents(50_000), loads=3)
    check(shmarray.loads(data), 50_000)
    for _ in range(2):
        shmarray.discard(data)
        assert files() == []


class Acts:
    """Does on loading what `_acts` says then."""

    def __reduce__(self):
        return _act, ()


def _act():
    return _acts[-1]()


_acts = [lambda: None]


def fail():
    raise pickle.UnpicklingError("not now")


def kill_me():
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_loading_that_fails_does_not_count(monkeypatch, files):
    data = shmarray.dumps([contents(50_000), Acts()], loads=2)
    with monkeypatch.context() as before:
        before.setattr(f"{__name__}._acts", [fail])
        for _ in range(5):
            with pytest.raises(pickle.UnpicklingError, match="not now"):
                shmarray.loads(data)
    for _ in range(2):
        check(shmarray.loads(data)[0], 50_000)
    assert files() == []


def test_a_receiver_that_is_killed_while_it_loads_has_not_counted(monkeypatch, files):
    data = shmarray.dumps([contents(50_000), Acts()], loads=2)

    def receive():
        monkeypatch.setattr(f"{__name__}._acts", [kill_me])
        shmarray.loads(data)

    assert in_child(receive) == b""
    for _ in range(2):
        check(shmarray.loads(data)[0], 50_000)
    sweep_after_deaths()
    assert files() == []


def test_a_receiver_that_is_killed_after_it_loaded_has_counted(files):
    data = shmarray.dumps(contents(50_000), loads=2)
    assert in_child(lambda: bytes([shmarray.loads(data)["private"][-1]])) == b"\x07"
    check(shmarray.loads(data), 50_000)
    sweep_after_deaths()
    assert files() == []


@pytest.mark.parametrize("loads", [1, 2])
@pytest.mark.parametrize("use", ["loads", "discard"])
def test_tickets_of_a_killed_last_receiver_are_given_back_when_the_bytes_are_used_next(
    loads, use, monkeypatch, files
):
    data = shmarray.dumps(contents(50_000), loads=loads)
    for _ in range(loads - 1):
        shmarray.loads(data)

    def give_back_one(handles):
        _dumps._core.discard(handles[0])
        kill_me()

    def receive():
        monkeypatch.setattr(_dumps, "_give_back", give_back_one)
        shmarray.loads(data)

    assert in_child(receive) == b""
    sweep_after_deaths()
    assert (
        len(files()) == loads
    )  # a ticket of the living family holds the shared array, and perhaps the tally
    if use == "discard":
        shmarray.discard(data)
    else:
        with pytest.raises(FileNotFoundError, match="1 of the 2 arrays"):
            shmarray.loads(data)
    assert files() == []


def test_as_many_processes_at_once_as_it_was_made_for_all_load_it(files):
    data = shmarray.dumps(contents(50_000), loads=40)
    gate, open_gate = os.pipe()
    children = []
    for _ in range(40):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.close(open_gate)
                os.read(gate, 1)  # until all are there
                check(shmarray.loads(data), 50_000)
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    os.close(gate)
    os.close(open_gate)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 40
    sweep_after_deaths()
    assert files() == []


def test_a_count_that_finds_no_room_is_a_memory_error_and_leaves_nothing(monkeypatch):
    def is_full(*_):
        raise MemoryError("shared memory is full")

    shared = contents(3)["shared"]
    monkeypatch.setattr(_dumps._core, "share", is_full)
    with pytest.raises(MemoryError, match="is full"):
        shmarray.dumps(shared, loads=2)
    assert [info.tickets for info in listed_arrays()] == [0]
    monkeypatch.undo()
    assert shmarray.dumps([1, "text"], loads=2) == shmarray.dumps([1, "text"])  # they hold nothing


def test_how_often_is_a_number_from_one_on():
    for wrong in (0, -1, 1 << 64):
        with pytest.raises(ValueError, match="invalid loads"):
            shmarray.dumps(1, loads=wrong)
    with pytest.raises(ValueError, match="there is no number of loads"):
        shmarray.dumps(1, loads=2, persist=True)
    with pytest.raises(TypeError):
        shmarray.dumps(1, loads=1.5)
