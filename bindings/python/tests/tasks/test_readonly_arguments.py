"""A task may store into its arguments wherever it may with the standard module."""

import multiprocessing
import pickle
from concurrent import futures

import joblib
import numpy as np
import pytest

import shmarray
import shmarray.joblib
import shmarray.multiprocessing as mp
from shmarray.concurrent import ProcessPoolExecutor
from ways import through_bytes

LARGE = np.arange(300_000.0)
SMALL = np.arange(5.0)


class Finalized(np.ndarray):
    """Notes what ``__array_finalize__`` got."""

    def __array_finalize__(self, obj):
        self.made_of = type(obj).__name__


def fixed(array):
    array.flags.writeable = False
    return array


def read_only(source, path):
    """Returns arrays that are read-only, as programs have them."""
    np.save(path, source)
    mapped = np.load(path, mmap_mode="r")
    return {
        "writeable": source.copy(),
        "by its flag": fixed(source.copy()),
        "in Fortran's order": fixed(np.asfortranarray(np.outer(source[:300], source[:5]))),
        "of a file": mapped,
        "every second of a file": mapped[::2],
        "of bytes": np.frombuffer(source.tobytes()),
        "repeated": np.broadcast_to(source[:3], (5, 3)),
        "repeated often": np.broadcast_to(source[:3], (40_000, 3)),
        "a diagonal": np.eye(4).diagonal(),
        "windows": np.lib.stride_tricks.sliding_window_view(source, 4),
        "of a subclass": fixed(source.copy().view(Finalized)),
        "records": fixed(source.copy().view([("x", "f4"), ("y", "i4")])),
        "dates": fixed(source.astype("<M8[s]")),
        "masked": np.ma.array(fixed(source.copy()), mask=fixed(source > 2)),
        "empty": fixed(np.zeros((0, 3))),
        "texts": fixed(np.array(["ab", "c"])),
        "objects": fixed(np.array([1, "a"], object)),
    }


def store(array):
    """Stores into an argument if it may. Returns what it had and what it may."""
    data = np.asarray(array)
    facts = type(array).__name__, array.dtype.str, array.shape, values(data), data.flags.writeable
    if data.flags.writeable:
        data[...] = data[::-1].copy()
    return *facts, values(data), getattr(array, "made_of", None)


def values(array):
    return array.tolist() if array.dtype.hasobject else array.tobytes()


def by_pool(module, arrays):
    with module.get_context("fork").Pool(1) as pool:
        return [pool.apply(store, (array,)) for array in arrays]


def by_map(module, arrays):
    with module.get_context("fork").Pool(1) as pool:
        return pool.map(store, arrays, chunksize=len(arrays))


def by_queue(module, arrays):
    context = module.get_context("fork")
    here = context.Queue()
    there = context.Queue()
    worker = context.Process(target=answer, args=(here, there))
    worker.start()
    here.put(arrays)
    answers = there.get()
    worker.join()
    return answers


def answer(here, there):
    there.put([store(array) for array in here.get()])


def by_pipe(module, arrays):
    here, there = module.Pipe()
    worker = module.get_context("fork").Process(target=answer_by_pipe, args=(there,))
    worker.start()
    here.send(arrays)
    answers = here.recv()
    worker.join()
    return answers


def answer_by_pipe(there):
    there.send([store(array) for array in there.recv()])


def by_executor(module, arrays):
    kinds = {mp: ProcessPoolExecutor, multiprocessing: futures.ProcessPoolExecutor}
    with kinds[module](1, module.get_context("fork")) as executor:
        return list(executor.map(store, arrays))


WAYS = [by_pool, by_map, by_queue, by_pipe, by_executor]


@pytest.mark.parametrize("source", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_task_may_store_where_the_standard_modules_let_it(way, source, tmp_path):
    arrays = read_only(source, tmp_path / "file.npy")
    got = way(mp, [*arrays.values()])
    wanted = way(multiprocessing, [*arrays.values()])
    for name, here, there in zip(arrays, got, wanted, strict=True):
        assert here == there, name


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_task_may_store_into_what_pandas_made_read_only(way):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": LARGE, "b": LARGE[::-1]})
    arrays = [frame.to_numpy(), frame["a"].to_numpy(), frame["b"].values]
    assert way(mp, arrays) == way(multiprocessing, arrays)


def by_joblib(backend, arrays):
    with joblib.parallel_config(backend=backend, n_jobs=2):
        return joblib.Parallel(max_nbytes=None)(joblib.delayed(store)(array) for array in arrays)


@pytest.mark.parametrize("source", [SMALL, LARGE], ids=["small", "large"])
def test_a_task_of_joblib_may_store_where_its_own_backend_lets_it(source, tmp_path):
    shmarray.joblib.register()
    arrays = read_only(source, tmp_path / "file.npy")
    names = [name for name in arrays if not name.endswith("of a file")]  # joblib maps files
    arrays = [arrays[name] for name in names]
    for name, here, there in zip(
        names, by_joblib("shmarray", arrays), by_joblib("loky", arrays), strict=True
    ):
        assert here == there, name


@pytest.mark.parametrize("source", [SMALL, LARGE], ids=["small", "large"])
def test_dumps_keeps_the_flag_of_every_array(source, tmp_path):
    for name, array in read_only(source, tmp_path / "file.npy").items():
        got = through_bytes(array)
        assert got.tolist() == array.tolist(), name
        assert got.flags.writeable == array.flags.writeable or array.dtype.hasobject, name


def test_a_shared_array_that_is_read_only_stays_read_only():
    shared = shmarray.share(LARGE)
    for array in (shmarray.attach(shmarray.handle(shared), readonly=True), fixed(shared[:])):
        with mp.get_context("fork").Pool(1) as pool:
            assert pool.apply(store, (array,))[4] is False


def test_a_subclass_is_finalized_as_by_a_pickle():
    for source in (SMALL, LARGE, LARGE[::-2]):
        array = source.view(Finalized)
        assert through_bytes(array).made_of == pickle.loads(pickle.dumps(array)).made_of
