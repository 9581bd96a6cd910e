"""Bytes of dumps hold what they refer to until they are loaded or discarded, whoever ends
meanwhile.
"""

import gc
import os
import pickle
import struct
import sys
import types
import zlib

import numpy as np
import pytest

import shmarray
from shmarray import _dumps, _shortage, _wire
from working import in_child, listed_arrays, sweep_after_deaths

# Sizes that go in the bytes, together with others in a segment, and in a segment of its own.
SIZES = {"small": 10, "medium": 50_000, "large": 500_000}
each_size = pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)


def private(size, mark):
    return np.full(size, mark, "u1")


def test_a_message_keeps_its_arrays_and_is_given_back_when_it_is_loaded(files):
    a = shmarray.full(3, 7)
    data = shmarray.dumps([a, private(SIZES["large"], 5)])
    del a
    assert (shmarray.sweep().segments, len(files())) == (0, 2)
    assert sorted(info.tickets for info in listed_arrays()) == [1, 1]
    b, c = shmarray.loads(data)
    assert [info.tickets for info in listed_arrays()] == [0, 0]
    assert (b.tolist(), c.min(), c.max()) == ([7, 7, 7], 5, 5)
    part = c[5:]
    del b, c
    assert (len(files()), part[0]) == (1, 5)
    del part
    assert files() == []


@each_size
def test_each_loading_gives_a_private_copy(size):
    sent = private(size, 1)
    data = shmarray.dumps({"a": sent}, loads=2)
    sent[0] = 2
    one, two = (shmarray.loads(data)["a"] for _ in range(2))
    assert (one.tolist(), two.tolist()) == ([1] * size, [1] * size)
    one[0] = 3
    two[1] = 4
    assert (sent[:2].tolist(), one[:2].tolist(), two[:2].tolist()) == ([2, 1], [3, 1], [1, 4])
    assert not shmarray.is_shared(one)


def test_a_shared_array_is_the_same_memory_each_time():
    a = shmarray.zeros(3)
    data = shmarray.dumps([a, a[1:]])
    one, two = (shmarray.loads(data)[1] for _ in range(2))
    one[0] = 1
    two[1] = 2
    assert a.tolist() == [0, 1, 2]
    assert shmarray.is_shared(one)


@each_size
def test_discarding_gives_back_and_does_no_harm_twice_or_later(size, files):
    sent = [private(size, 1), shmarray.full(size, 2, "u1")]
    data = shmarray.dumps(sent)
    sent.pop()
    for _ in range(2):
        shmarray.discard(data)
        assert files() == []
    data = shmarray.dumps(sent)
    got = shmarray.loads(data)
    shmarray.discard(data)
    assert got[0].tolist() == [1] * size


def test_a_gone_array_is_not_found_and_a_replaced_one_is_stale():
    a = shmarray.full(3, 1)
    data = shmarray.dumps(a)
    shmarray.discard(data)
    number = shmarray.handle(a).segment
    own = shmarray.zeros(3)
    del a
    replacement = shmarray.full(3, 2)
    assert shmarray.handle(replacement).segment == number
    with pytest.raises(shmarray.StaleHandleError):
        shmarray.loads(data)
    assert replacement.tolist() == [2, 2, 2]
    del own, replacement
    with pytest.raises(FileNotFoundError, match="given back"):
        shmarray.loads(data)


def test_all_arrays_that_are_gone_are_named():
    here = shmarray.ones(3)
    gone = [shmarray.zeros(100_000), shmarray.zeros(200_000)]
    names = [shmarray.handle(array).segment for array in gone]
    data = shmarray.dumps([gone[0], here, gone[1]])
    del gone
    shmarray.discard(data)
    with pytest.raises(
        FileNotFoundError, match="2 of the 3 arrays of the message are gone"
    ) as raised:
        shmarray.loads(data)
    assert all(name in str(raised.value) for name in names)
    assert shmarray.handle(here).segment not in str(raised.value)


def test_a_file_that_an_object_misses_is_no_array_that_is_gone(tmp_path):
    class Opens:
        def __reduce__(self):
            return open, (str(tmp_path / "nothing"),)

    data = shmarray.dumps([shmarray.ones(3), Opens()])
    with pytest.raises(FileNotFoundError, match="nothing"):
        shmarray.loads(data)
    shmarray.discard(data)


def test_another_directory_has_it_not(tmp_path, monkeypatch, files):
    data = shmarray.dumps(private(SIZES["large"], 1))
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("SHMARRAY_DIR", str(tmp_path))
        with pytest.raises(FileNotFoundError, match="another SHMARRAY_DIR"):
            shmarray.loads(data)
    assert shmarray.loads(data)[-1] == 1
    gc.collect()
    assert files() == []


@each_size
def test_a_load_that_fails_leaves_the_message_as_it_was(size, monkeypatch):
    module = types.ModuleType("not_yet_there")
    exec("class Thing:\n    def __init__(self, *parts): self.parts = parts", vars(module))
    monkeypatch.setitem(sys.modules, "not_yet_there", module)
    module.Thing.__reduce__ = lambda thing: (module.Thing, thing.parts)
    data = shmarray.dumps([shmarray.ones(size), module.Thing(private(size, 3))])
    with monkeypatch.context() as before:
        before.delitem(sys.modules, "not_yet_there")
        for _ in range(2):
            with pytest.raises(ModuleNotFoundError, match="not_yet_there"):
                shmarray.loads(data)
        gc.collect()
        assert {info.tickets for info in listed_arrays()} == {1}
        assert shmarray.sweep().segments == 0
    ones, thing = shmarray.loads(data)
    assert (ones.sum(), thing.parts[0].tolist()) == (size, [3] * size)


def test_anything_like_bytes_can_be_loaded():
    data = shmarray.dumps(private(SIZES["large"], 1), loads=5)
    forms = [
        data,
        bytearray(data),
        memoryview(data),
        memoryview(b"x" + data)[1:],
        np.frombuffer(data, "u1"),
    ]
    loaded = [shmarray.loads(form) for form in forms]
    assert [array.sum() for array in loaded] == [SIZES["large"]] * 5
    for wrong in ("text", 5, None):
        with pytest.raises(TypeError):
            shmarray.loads(wrong)


DATA = shmarray.dumps([1, "text", np.arange(3)])


def with_checksum(body):
    return _wire.DUMPS + struct.pack("<I", zlib.crc32(body)) + body


HEAD = _wire.DUMPS_HEADER.size
GARBAGE = {
    "nothing": b"",
    "one byte": b"s",
    "pickle's": pickle.dumps(5),
    "only a name": _wire.DUMPS,
    "another version": DATA.replace(b"\x01", b"\x03", 1),
    "of more loadings, it says": DATA.replace(b"\x01", b"\x02", 1),
    "cut": DATA[:-1],
    "cut in the middle": DATA[: len(DATA) // 2],
    "with more": DATA + b"x",
    "noise": np.random.default_rng(1).bytes(1000),
    "zeros": bytes(100),
    "huge sizes": DATA[:HEAD] + b"\xff" * 16 + DATA[HEAD + 16 :],
    "other sizes": with_checksum(b"\x07" + DATA[HEAD + 1 :]),
    "pickle's, called ours": _wire.DUMPS + bytes(20) + pickle.dumps(5),
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
def test_other_bytes_are_a_value_error(garbage):
    assert shmarray.loads(DATA)[:2] == [1, "text"]
    for use in (shmarray.loads, shmarray.discard):
        with pytest.raises(ValueError, match="invalid data"):
            use(garbage)


def test_a_changed_byte_is_seen_before_anything_is_unpickled():
    for place in range(len(DATA)):
        changed = bytearray(DATA)
        changed[place] ^= 1
        for use in (shmarray.loads, shmarray.discard):
            with pytest.raises(ValueError, match="invalid data"):
                use(changed)


def test_arrays_without_room_in_shared_memory_are_in_the_bytes_and_share_says_so(
    small_tmpfs, monkeypatch
):
    directory = small_tmpfs("size=4m")
    monkeypatch.setattr(_shortage, "_has_warned", False)
    sent = [private(1 << 20, number) for number in range(5)]
    with pytest.raises(MemoryError, match="shared memory is full"):
        shmarray.share(sent)
    assert [name for name in os.listdir(directory) if "registry" not in name] == []
    with pytest.warns(RuntimeWarning, match="shared memory is full"):
        data = shmarray.dumps(sent)
    assert len(data) > 1 << 20
    again = shmarray.dumps([[array[::2] for array in sent], sent])  # it was told once
    assert [array[-1] for array in shmarray.loads(data)] == list(range(5))
    assert [array[-1] for array in shmarray.loads(again)[1]] == list(range(5))


def test_a_ticket_that_cannot_be_had_leaves_nothing(monkeypatch, files):
    make = _dumps._core.handle_to_send
    made = []

    def one(array):
        if made:
            raise MemoryError("no more")
        made.append(make(array))
        return made[-1]

    monkeypatch.setattr(_dumps._core, "handle_to_send", one)
    with pytest.raises(MemoryError, match="no more"):
        shmarray.dumps([private(SIZES["large"], 1), private(SIZES["large"], 2)])
    assert (len(made), files()) == (1, [])


@each_size
def test_a_message_of_a_killed_sender_lives_with_its_family(size, files):
    ours = shmarray.ones(3)
    data = in_child(
        lambda: shmarray.dumps(
            {"private": private(size, 7), "own": shmarray.full(size, 8), "ours": ours}
        )
    )
    sweep_after_deaths()
    got = shmarray.loads(data)
    assert (got["private"].tolist(), got["own"].tolist()) == ([7] * size, [8.0] * size)
    got["ours"][0] = 5
    assert ours.tolist() == [5, 1, 1]
    del got
    sweep_after_deaths()
    assert len(files()) == 1  # empties the pool


@each_size
def test_a_message_goes_with_its_senders_family(size, peer, files):
    code = "data = shmarray.dumps([np.ones(size), shmarray.ones(size)]); answer = data.hex()"
    data = bytes.fromhex(peer.run(code, size=size))
    peer.run("del data")
    assert shmarray.sweep().segments == 0
    peer.kill()
    assert shmarray.sweep().segments == (1 if size == SIZES["small"] else 2)
    assert files() == []
    with pytest.raises(FileNotFoundError):
        shmarray.loads(data)


@each_size
def test_a_receiver_that_is_killed_leaves_nothing_and_takes_nothing(size, files):
    data = shmarray.dumps([private(size, 7), shmarray.full(size, 8)], loads=2)

    def receive():
        got = shmarray.loads(data)
        return bytes([int(got[0][-1]), int(got[1][-1])])

    loaded = shmarray.loads(data)
    assert in_child(receive) == bytes([7, 8])
    assert (loaded[0].tolist(), loaded[1].tolist()) == ([7] * size, [8.0] * size)
    del loaded
    sweep_after_deaths()
    assert files() == []
    data = shmarray.dumps([private(size, 7), shmarray.full(size, 8)])
    assert in_child(receive) == bytes([7, 8])
    sweep_after_deaths()
    assert files() == []


RECEIVE = """
got = shmarray.loads(data)
got["private"] += 1
got["shared"] += 1
answer = [got["private"].tolist(), got["view"].tolist(), got["fixed"].flags.writeable]
"""


@each_size
def test_another_program_has_what_was_shared_and_its_own_of_what_was_private(size, peer, files):
    sent = {
        "private": private(size, 1),
        "shared": shmarray.full(3, 5),
        "fixed": np.frombuffer(b"a" * size, "u1"),
    }
    sent["view"] = sent["private"][2:4]
    data = shmarray.dumps(sent, loads=2)
    assert peer.run(RECEIVE, data=data) == [[2] * size, [1, 1], False]
    assert (sent["private"].tolist(), sent["shared"].tolist()) == ([1] * size, [6, 6, 6])
    peer.run("got['private'][:] = 9")
    assert shmarray.loads(data)["private"].tolist() == [1] * size
    back = bytes.fromhex(peer.run("answer = shmarray.dumps(got).hex()"))
    got = shmarray.loads(back)
    assert (got["private"].tolist(), got["view"].tolist()) == ([9] * size, [1, 1])
    assert shmarray.handle(got["shared"]) == shmarray.handle(sent["shared"])
    peer.leave()
    del got, sent
    gc.collect()
    assert files() == []


def test_a_forked_child_has_its_own_of_what_was_private():
    got = shmarray.loads(shmarray.dumps(private(SIZES["large"], 1)))
    got[0] = 2

    def change():
        got[1] = 3
        return shmarray.dumps(got)

    data = in_child(change)
    assert got[:3].tolist() == [2, 1, 1]
    assert shmarray.loads(data)[:3].tolist() == [2, 3, 1]
