"""load_batch: many files in one array, or in batches that are loaded ahead within bounds."""

import gc
import threading

import numpy as np
import pytest

import shmarray
from processes import interrupted, run_forked
from test_npy import npy

FORKS = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
SHARED = pytest.mark.parametrize("shared", [True, False], ids=["shared", "private"])
COUNT = 7


def image(number):
    return np.full((2, 3), number, "<i4")


@pytest.fixture
def paths(tmp_path):
    """Files with the arrays 0 to 6."""
    for number in range(COUNT):
        np.save(tmp_path / f"{number}.npy", image(number))
    return [tmp_path / f"{number}.npy" for number in range(COUNT)]


def numbers(batch):
    """Returns which images a batch has."""
    assert (batch.dtype, batch.shape[1:]) == (np.dtype("<i4"), (2, 3))
    assert (batch == batch[:, :1, :1]).all()
    return batch[:, 0, 0].tolist()


@SHARED
@pytest.mark.parametrize("threads", [None, 1, 2, 16])
def test_all_files_become_one_array_in_their_order(paths, threads, shared):
    batch = shmarray.load_batch(reversed(paths), threads=threads, shared=shared)
    assert numbers(batch) == [6, 5, 4, 3, 2, 1, 0]
    assert shmarray.is_shared(batch) is shared
    assert batch.flags.c_contiguous
    assert batch.flags.writeable


@SHARED
def test_files_are_paths_or_bytes_in_any_order_of_elements(paths, shared):
    sources = [
        str(paths[0]),
        paths[1],
        npy(image(2)),
        bytearray(npy(image(3))),
        memoryview(npy(np.asfortranarray(image(4)))),
    ]
    assert numbers(shmarray.load_batch(sources, shared=shared)) == [0, 1, 2, 3, 4]


def test_columns_stay_the_same_elements():
    arrays = [np.asfortranarray(np.arange(6).reshape(2, 3) + number) for number in range(3)]
    batch = shmarray.load_batch([npy(array) for array in arrays])
    np.testing.assert_array_equal(batch, np.stack(arrays))


@SHARED
@pytest.mark.parametrize("prefetch", [1, 2, 9])
@pytest.mark.parametrize(
    ("size", "drop", "parts"),
    [
        (3, False, [[0, 1, 2], [3, 4, 5], [6]]),
        (3, True, [[0, 1, 2], [3, 4, 5]]),
        (7, True, [[0, 1, 2, 3, 4, 5, 6]]),
        (8, False, [[0, 1, 2, 3, 4, 5, 6]]),
        (8, True, []),
    ],
)
def test_batches_come_in_order(paths, size, drop, parts, prefetch, shared):
    batches = shmarray.load_batch(paths, size, drop_last=drop, prefetch=prefetch, shared=shared)
    assert len(batches) == len(parts)
    for _epoch in range(3):
        found = list(batches)
        assert [numbers(batch) for batch in found] == parts
        assert all(shmarray.is_shared(batch) is shared for batch in found)
        assert next(batches, "the end") == "the end"


def test_each_iteration_is_an_epoch_of_its_own(paths):
    batches = shmarray.load_batch(paths, 3)
    assert [
        (numbers(one), numbers(other)) for one, other in zip(batches, batches, strict=True)
    ] == [
        ([0, 1, 2], [0, 1, 2]),
        ([3, 4, 5], [3, 4, 5]),
        ([6], [6]),
    ]
    for _batch in batches:
        break
    assert numbers(next(batches)) == [3, 4, 5]
    assert [numbers(batch) for batch in batches] == [[0, 1, 2], [3, 4, 5], [6]]


def test_batches_are_iterated_when_nobody_refers_to_them_any_more(paths):
    assert [numbers(batch) for batch in shmarray.load_batch(paths, 4)] == [[0, 1, 2, 3], [4, 5, 6]]


class Counted:
    """Counts the batches that are loaded, and how many had been asked for by then."""

    def __init__(self, monkeypatch):
        self.asked = 0
        self.loads = []
        self.loaded = threading.Semaphore(0)
        self.load = shmarray._core.load_batch
        monkeypatch.setattr(shmarray._core, "load_batch", self)

    def __call__(self, *arguments):
        self.loads.append(self.asked)
        batch = self.load(*arguments)
        self.loaded.release()
        return batch

    def take_all(self, batches, ahead):
        """Takes each batch when as many as may be are ahead. No more ever are."""
        for number in range(len(batches)):
            for _ in range(ahead if number == 0 else int(number + ahead <= len(batches))):
                self.loaded.acquire()
            self.asked += 1
            assert numbers(next(batches)) == [number]
        assert len(self.loads) == len(batches)
        assert all(at < asked + ahead for at, asked in enumerate(self.loads))


@pytest.mark.parametrize("prefetch", [1, 2, 3, COUNT])
def test_so_many_batches_are_ahead_and_no_more(paths, prefetch, monkeypatch):
    counted = Counted(monkeypatch)
    counted.take_all(shmarray.load_batch(paths, 1, prefetch=prefetch), prefetch)


@pytest.mark.parametrize(("max_bytes", "ahead"), [(24, 1), (47, 1), (48, 2), (1000, 3)])
def test_max_bytes_lowers_how_many_are_ahead(paths, max_bytes, ahead, monkeypatch):
    counted = Counted(monkeypatch)
    batches = shmarray.load_batch(paths, 1, prefetch=3, max_bytes=max_bytes)
    counted.take_all(batches, ahead)


def test_a_batch_that_is_larger_than_max_bytes_is_refused(paths, files):
    with pytest.raises(ValueError, match=r"48 bytes.*max_bytes=47"):
        shmarray.load_batch(paths, 2, max_bytes=47)
    gc.collect()
    assert files() == []


def test_progress_is_told_with_each_batch_in_this_thread(paths):
    calls = []

    def progress(*at):
        calls.append((*at, threading.current_thread()))

    list(shmarray.load_batch(paths, 3, progress=progress))
    here = threading.current_thread()
    assert calls == [(3, 7, here), (6, 7, here), (7, 7, here)]
    calls.clear()
    list(shmarray.load_batch(paths, 3, progress=progress, drop_last=True))
    assert calls == [(3, 6, here), (6, 6, here)]


def test_progress_of_one_array_ends_with_all_in_this_thread(paths):
    calls = []

    def progress(*at):
        calls.append((*at, threading.current_thread()))

    shmarray.load_batch(paths, progress=progress, threads=3)
    assert calls[-1] == (7, 7, threading.current_thread())
    assert calls == sorted(calls, key=lambda at: at[0])


def test_an_exception_of_progress_is_passed_on_and_leaves_nothing(paths, files):
    def fail(_done, _total):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        shmarray.load_batch(paths, progress=fail)
    batches = shmarray.load_batch(paths, 2, progress=fail)
    with pytest.raises(ZeroDivisionError):
        next(batches)
    batches.close()
    wait_for_threads()
    assert files() == []


def wait_for_threads():
    """Waits until no batches are loaded. They were closed, or failed."""
    for thread in threading.enumerate():
        if thread.name.startswith("shmarray batches"):
            thread.join()
    gc.collect()


BROKEN = {
    "missing": (None, FileNotFoundError),
    "another shape": (npy(np.zeros((3, 2), "<i4")), ValueError),
    "another dtype": (npy(np.zeros((2, 3), "<i8")), ValueError),
    "cut off": (npy(image(5))[:-1], ValueError),
    "no NPY file": (b"text", ValueError),
    "objects": (
        npy(np.array([None] * 6).reshape(2, 3), allow_pickle=True),
        (ValueError, TypeError),
    ),
}


@SHARED
@pytest.mark.parametrize(("data", "error"), BROKEN.values(), ids=BROKEN)
def test_an_error_names_the_file(paths, data, error, shared, files):
    paths[5].unlink()
    if data is not None:
        paths[5].write_bytes(data)
    with pytest.raises(error, match=r"5\.npy"):
        shmarray.load_batch(paths, shared=shared)
    with shmarray.load_batch(paths, 2, shared=shared) as batches:
        assert numbers(next(batches)) == [0, 1]
        assert numbers(next(batches)) == [2, 3]
        with pytest.raises(error, match=r"5\.npy"):
            next(batches)
        assert numbers(next(batches)) == [6]
        assert next(batches, "the end") == "the end"
    wait_for_threads()
    assert files() == []


@pytest.fixture(params=[(data, at) for data in BROKEN for at in (0, 3, 5)], ids=str)
def bad(request, paths):
    """The index and the exception of a file that cannot be loaded with the others."""
    name, at = request.param
    data, error = BROKEN[name]
    paths[at].unlink()
    if data is not None:
        paths[at].write_bytes(data)
    return at, error


@SHARED
def test_a_file_that_cannot_be_loaded_is_left_out(bad, paths, shared):
    at, error = bad
    rest = [number for number in range(COUNT) if number != at]
    errors = []
    options = {"shared": shared, "on_error": lambda source, error: errors.append((source, error))}
    for collected in ({"shared": shared, "on_error": "skip"}, options):
        assert numbers(shmarray.load_batch(paths, **collected)) == rest
        batches = shmarray.load_batch(paths, 3, **collected)
        parts = [
            [number for number in part if number != at] for part in ([0, 1, 2], [3, 4, 5], [6])
        ]
        assert [numbers(batch) for batch in batches] == parts
        assert [numbers(batch) for batch in batches] == parts
    assert [source for source, _ in errors] == [paths[at]] * 3
    for _, exception in errors:
        assert isinstance(exception, error)
        assert paths[at].name in str(exception)


@SHARED
def test_bytes_that_cannot_be_loaded_are_left_out(shared):
    files = [npy(image(0)), b"text", bytearray(npy(image(2)))]
    errors = []
    batch = shmarray.load_batch(files, shared=shared, on_error=lambda *bad: errors.append(bad))
    assert numbers(batch) == [0, 2]
    assert [source for source, _ in errors] == [b"text"]


def test_files_unlike_most_of_their_batch_are_left_out_wherever_they_stand(tmp_path):
    shapes = [(3, 2), (2, 3), (2, 3), (4,)]
    for number, shape in enumerate(shapes):
        np.save(tmp_path / f"{number}.npy", np.full(shape, number, "<i4"))
    errors = []
    paths = [tmp_path / f"{number}.npy" for number in range(4)]
    batch = shmarray.load_batch(paths, on_error=lambda *bad: errors.append(str(bad[1])))
    assert numbers(batch) == [1, 2]
    assert ["0.npy" in errors[0], "3.npy" in errors[1]] == [True, True]
    assert all("(2, 3)" in text for text in errors)


def test_a_batch_without_a_file_that_can_be_loaded_is_left_out(paths, files):
    for path in paths[2:4]:
        path.unlink()
    batches = shmarray.load_batch(paths, 2, on_error="skip")
    assert [numbers(batch) for batch in batches] == [[0, 1], [4, 5], [6]]
    with pytest.raises(ValueError, match="none of the files") as raised:
        shmarray.load_batch(paths[2:4], on_error="skip")
    assert isinstance(raised.value.__cause__, FileNotFoundError)
    del batches
    wait_for_threads()
    assert files() == []


def test_an_exception_of_on_error_is_raised_and_the_next_batch_follows(paths):
    paths[0].unlink()

    def fail(_source, _error):
        raise ZeroDivisionError

    batches = shmarray.load_batch(paths, 2, on_error=fail)
    with pytest.raises(ZeroDivisionError):
        next(batches)
    assert numbers(next(batches)) == [2, 3]
    batches.close()
    wait_for_threads()


def test_memory_that_is_full_and_what_is_no_file_are_not_skipped(paths, monkeypatch):
    with pytest.raises(TypeError, match="int"):
        shmarray.load_batch([paths[0], 5], on_error="skip")

    def full(*_arguments):
        raise MemoryError

    monkeypatch.setattr(shmarray._core, "load_batch", full)
    with pytest.raises(MemoryError):
        shmarray.load_batch(paths, on_error="skip")


def test_progress_counts_files_that_are_left_out_and_never_goes_back(paths):
    paths[2].unlink()
    for options in ({"threads": 1}, {"threads": 3}, {"batch_size": 2}):
        calls = []
        found = shmarray.load_batch(
            paths, on_error="skip", progress=lambda *at, calls=calls: calls.append(at), **options
        )
        assert sum(len(numbers(batch)) for batch in found) == 6 if "batch_size" in options else True
        assert calls == sorted(calls)
        assert calls[-1] == (7, 7)


@SHARED
def test_max_bytes_looks_at_the_first_file_that_can_be_loaded(paths, shared):
    paths[0].unlink()
    with pytest.raises(FileNotFoundError, match=r"0\.npy"):
        shmarray.load_batch(paths, 2, max_bytes=100, shared=shared)
    batches = shmarray.load_batch(paths, 2, max_bytes=100, on_error="skip", shared=shared)
    assert [numbers(batch) for batch in batches] == [[1], [2, 3], [4, 5], [6]]
    with pytest.raises(ValueError, match="48 bytes"):
        shmarray.load_batch(paths, 2, max_bytes=47, on_error="skip")


@SHARED
def test_batches_that_are_wanted_read_only_are_so(paths, shared):
    whole = shmarray.load_batch(paths, readonly=True, shared=shared)
    assert numbers(whole) == list(range(COUNT))
    for batch in (whole, *shmarray.load_batch(paths, 3, readonly=True, shared=shared)):
        assert not batch.flags.writeable
        assert shmarray.is_shared(batch) is shared


def test_arguments_that_cannot_be_are_refused(paths):
    for options in (
        {"batch_size": 0},
        {"batch_size": 2, "prefetch": 0},
        {"threads": 0},
        {"prefetch": 2},
        {"drop_last": True},
        {"on_error": "ignore"},
        {"batch_size": 2, "on_error": None},
    ):
        name = list(options)[-1]
        with pytest.raises(ValueError, match=name):
            shmarray.load_batch(paths, **options)
    with pytest.raises(ValueError, match="at least one"):
        shmarray.load_batch([])
    with pytest.raises(TypeError, match="int"):
        shmarray.load_batch([5])


def test_a_batch_size_that_is_no_number_of_files_is_a_type_error_and_nothing_else(paths):
    with pytest.raises(TypeError):
        shmarray.load_batch(paths, 2.5)
    gc.collect()  # what is half-made goes quietly


def test_closed_batches_are_at_their_end_and_leave_nothing(paths, files):
    with shmarray.load_batch(paths, 1, prefetch=5) as batches:
        first = next(batches)
    assert next(batches, "the end") == "the end"
    with pytest.raises(ValueError, match="closed"):
        list(batches)
    wait_for_threads()
    assert numbers(first) == [0]
    assert len(files()) == 1


def test_batches_that_are_dropped_leave_nothing(paths, files):
    next(shmarray.load_batch(paths, 1, prefetch=5))
    wait_for_threads()
    assert files() == []


def check_rest(batches):
    assert [numbers(next(batches)) for _ in range(3)] == [[2, 3], [4, 5], [6]]
    assert next(batches, "the end") == "the end"
    assert [numbers(batch) for batch in batches] == [[0, 1], [2, 3], [4, 5], [6]]


@FORKS
@pytest.mark.parametrize("prefetch", [1, 2, 5])
def test_a_fork_in_the_middle_has_the_rest_of_the_batches_too(paths, prefetch):
    batches = shmarray.load_batch(paths, 2, prefetch=prefetch)
    assert numbers(next(batches)) == [0, 1]
    run_forked(check_rest, batches)
    check_rest(batches)


def test_the_interpreter_ends_quietly_with_batches_ahead(paths, run_python, files):
    code = """
import sys, shmarray
batches = shmarray.load_batch(sys.argv[1:], 1, prefetch=3)
print(int(next(batches).sum()))
"""
    assert run_python(code, *paths) == "0\n"
    shmarray.sweep()
    assert files() == []


def test_ctrl_c_ends_the_loading_of_one_array(tmp_path, files):
    np.save(tmp_path / "large.npy", np.ones(1 << 20, "u1"))
    code = """
import sys, shmarray
try:
    print("waiting", flush=True)
    while True:
        shmarray.load_batch([sys.argv[1]] * 64, threads=1)
except KeyboardInterrupt:
    print("interrupted")
"""
    assert interrupted(code, str(tmp_path / "large.npy")) == ("interrupted\n", 0)
    shmarray.sweep()
    assert files() == []


def test_a_batch_goes_to_another_process_by_its_handle(paths, peer):
    with shmarray.load_batch(paths, 3) as batches:
        batch = next(batches)
    peer.run("shmarray.attach(text)[1] = 77", text=str(shmarray.handle(batch)))
    assert batch[1].tolist() == [[77] * 3] * 2
