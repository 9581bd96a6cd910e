"""Arrays of other classes than ndarray stay what they are."""

import copyreg
import pickle

import numpy as np
import pytest
from numpy.ma import mrecords

import shmarray
from ways import LARGE, WAYS, each_way, through_bytes

CUBE = np.arange(24.0).reshape(2, 3, 4)


class WithInfo(np.ndarray):
    """As in NumPy's manual: pickled by ndarray's methods, which drop the attribute."""

    def __array_finalize__(self, obj):
        self.info = getattr(obj, "info", "none")


class WithState(WithInfo):
    """As the manual says to keep it."""

    def __reduce__(self):
        make, arguments, state = super().__reduce__()
        return make, arguments, (state, self.info)

    def __setstate__(self, state):
        super().__setstate__(state[0])
        self.info = state[1]


class WithSlots(np.ndarray):
    __slots__ = ("note",)


class WithoutView(np.ndarray):
    view = None


class MaskedWithInfo(np.ma.MaskedArray):
    """Its constructor takes other arguments than its parent's."""

    def __new__(cls, values, unit):
        new = np.ma.MaskedArray.__new__(cls, values, mask=[value == 0 for value in values])
        new.unit = unit
        return new


def in_class(kind, values):
    return np.array(values).view(kind)


def with_info(kind):
    new = in_class(kind, [1, 2, 3])
    new.info = "metres"
    return new


def masked(values, **options):
    return np.ma.array(values, mask=[value == 2 for value in values], **options)


MASKED = {
    "with a mask": masked([1.0, 2.0, 3.0], fill_value=7),
    "without": np.ma.array([1, 2]),
    "with a hard mask": masked([1, 2, 3], hard_mask=True),
    "with a mask that is a view's": masked([1, 2, 3])[1:],
    "in Fortran's order": np.ma.array(CUBE, mask=CUBE > 5).T,
    "0-d": np.ma.array(3, mask=True),
    "structured": np.ma.array(
        [(1, 2.0), (3, 4.0)], mask=[(0, 1), (1, 0)], dtype=[("a", int), ("b", float)]
    ),
    "of a matrix": np.ma.array(np.ones((2, 2)).view(np.matrix), mask=[[0, 1], [0, 0]]),
    "of objects": np.ma.array([1, "a", None], mask=[0, 1, 0], dtype=object),
    "of a class with its own constructor": MaskedWithInfo([0, 1, 2], "m"),
}


@each_way
@pytest.mark.parametrize("source", MASKED.values(), ids=MASKED)
def test_masked_arrays_stay_what_they_are(source, way):
    copy = way(source)
    assert (type(copy), copy.dtype, copy.shape) == (type(source), source.dtype, source.shape)
    assert (type(copy.data), copy.data.tolist()) == (type(source.data), source.data.tolist())
    assert (copy.mask is np.ma.nomask, copy.mask.tolist()) == (
        source.mask is np.ma.nomask,
        source.mask.tolist(),
    )
    assert (copy.hardmask, copy.sharedmask) == (source.hardmask, source.sharedmask)
    assert (copy._fill_value is None, copy.fill_value) == (
        source._fill_value is None,
        source.fill_value,
    )


def test_other_masked_things_stay_what_they_are():
    element = MASKED["structured"][0]
    copy = through_bytes(element)
    assert (type(copy), copy.tolist()) == (type(element), element.tolist())
    records = mrecords.fromarrays(
        [np.ma.array([1, 2], mask=[0, 1]), np.ma.array([1.5, 2.5])], names="a,b"
    )
    copy = through_bytes(records)
    assert (type(copy), copy.tolist(), copy.mask.tolist()) == (
        type(records),
        records.tolist(),
        records.mask.tolist(),
    )
    assert through_bytes([np.ma.masked, 5])[0] is np.ma.masked


@pytest.fixture
def memmap(tmp_path):
    return np.memmap(tmp_path / "file", "f4", "w+", shape=(3, 4))


KINDS = {
    "matrix": np.ones((2, 2)).view(np.matrix),
    "record array": np.rec.array([(1, 2.5), (2, 3.5)], dtype=[("x", "<i4"), ("y", ">f8")]),
    "without state": with_info(WithInfo),
    "with slots": in_class(WithSlots, [1, 2]),
    "without a view of its own": in_class(WithoutView, [1, 2]),
    "read-only": np.frombuffer(b"abcd", "u1").view(WithInfo),
    "strided": np.arange(10)[::-2].view(WithInfo),
}


@each_way
@pytest.mark.parametrize("source", KINDS.values(), ids=KINDS)
def test_subclasses_stay_what_they_are(source, way):
    copy = way(source)
    assert (type(copy), copy.dtype, copy.shape) == (type(source), source.dtype, source.shape)
    assert (copy.tolist(), copy.flags.writeable) == (source.tolist(), source.flags.writeable)


@pytest.mark.filterwarnings("ignore:.*chararray:DeprecationWarning")
def test_an_array_of_texts_stays_what_it_is():
    source = np.array(["ab", "c "]).view(np.char.chararray)
    copy = through_bytes(source)
    assert (type(copy), copy.dtype, copy.tolist()) == (
        np.char.chararray,
        source.dtype,
        source.tolist(),
    )


def test_an_attribute_travels_if_the_class_says_so():
    assert through_bytes(with_info(WithState)).info == "metres"
    assert (
        through_bytes(with_info(WithInfo)).info
        == pickle.loads(pickle.dumps(with_info(WithInfo))).info
        == "none"
    )


def test_a_class_of_which_somebody_else_says_how_it_is_pickled(monkeypatch):
    monkeypatch.setitem(copyreg.dispatch_table, WithInfo, lambda array: (str, (array.info,)))
    assert through_bytes(with_info(WithInfo)) == "metres"


def test_a_memmap_is_copied_and_no_longer_that_of_a_file(memmap):
    memmap[:] = 3
    for way in WAYS:
        copy = way(memmap)
        copy[0] = 4
        assert (type(copy), copy.sum(), memmap.sum()) == (np.memmap, 40, 36)


def test_a_shared_object_is_sent_without_a_copy():
    got = shmarray.share(
        [np.ones(LARGE), np.ma.array(CUBE, mask=CUBE > 3), in_class(WithInfo, [1, 2])]
    )
    before = shmarray.copied_bytes()
    again = through_bytes(got)
    assert shmarray.copied_bytes() - before <= 8  # the fill value
    assert np.shares_memory(again[0], got[0])
    assert np.shares_memory(again[1].data, got[1].data)
    assert np.shares_memory(again[1].mask, got[1].mask)
    assert np.shares_memory(again[2], got[2])
