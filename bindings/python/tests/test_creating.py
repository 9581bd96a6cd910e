"""New arrays are what NumPy's functions of the same name make, in shared memory."""

import itertools
import os
import stat

import numpy as np
import pytest

import shmarray

SHAPES = [
    (),
    (0,),
    (3,),
    5,
    (2, 3),
    (0, 3),
    (3, 0),
    (2, 3, 4),
    [2, 3],
    np.int64(4),
    (np.uint8(2), 3),
    (1, 5, 1),
]


def assert_alike(ours, numpys):
    assert type(ours) is np.ndarray
    assert (ours.shape, ours.dtype) == (numpys.shape, numpys.dtype)
    if numpys.size * numpys.itemsize:  # without a gap, versions of NumPy differ
        assert ours.strides == numpys.strides
    assert isinstance(ours.base, shmarray._core.SegmentMemory)
    assert ours.flags.writeable
    assert shmarray.is_shared(ours)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(
    "dtype", [float, None, "i2", ">u4", "c16", "?", "S5", "S", "U", [("a", "i1"), ("b", "f8")]]
)
def test_empty_zeros_and_ones_make_what_numpy_makes(shape, order, dtype):
    for name in ("empty", "zeros", "ones"):
        assert_alike(
            getattr(shmarray, name)(shape, dtype, order), getattr(np, name)(shape, dtype, order)
        )
    np.testing.assert_array_equal(
        shmarray.zeros(shape, dtype, order), np.zeros(shape, dtype, order)
    )
    np.testing.assert_array_equal(shmarray.ones(shape, dtype, order), np.ones(shape, dtype, order))


def test_a_dtype_with_dimensions_gives_them_to_the_array():
    ours = shmarray.zeros((2,), ("i4", (3, 5)))
    assert_alike(ours, np.zeros((2,), ("i4", (3, 5))))
    assert_alike(shmarray.zeros_like(np.zeros(2), ("i4", (3,))), np.zeros((2, 3), "i4"))


@pytest.mark.parametrize(
    "value",
    [7, 2.5, 1j, True, b"ab", "häß", np.float32(3), [1, 2, 3], np.datetime64("2020-01-01")],
)
def test_full_takes_the_dtype_of_its_value(value):
    ours = shmarray.full((2, 3), value)
    numpys = np.full((2, 3), value)
    assert_alike(ours, numpys)
    np.testing.assert_array_equal(ours, numpys)


def test_full_casts_to_the_dtype_given():
    np.testing.assert_array_equal(shmarray.full(3, 2.7, "i4", order="F"), np.full(3, 2.7, "i4"))


def test_a_value_that_does_not_fit_leaves_neither_array_nor_name(files):
    with pytest.raises(ValueError, match="broadcast"):
        shmarray.full((2, 3), [1, 2], name="half", persist=True)
    assert files() == []


PROTOTYPES = {
    "c": np.zeros((2, 3, 4), "i2"),
    "f": np.zeros((2, 3, 4), "i2", order="F"),
    "sliced": np.zeros((4, 6, 4), "i2")[::2, ::2],
    "reversed": np.zeros((2, 3, 4), "i2")[::-1, :, ::-1],
    "broadcast": np.broadcast_to(np.zeros(4, "i2"), (2, 3, 4)),
    "broadcast in the middle": np.broadcast_to(np.zeros((2, 1, 4), "i2"), (2, 3, 4)),
    "scalar": np.zeros((), "i2"),
    "empty": np.zeros((0, 3), "i2"),
    "list": [[1, 2], [3, 4]],
    "subclass": np.ma.zeros((2, 3)).T,
    **{
        f"axes {axes}": np.zeros((2, 3, 4)).transpose(axes)
        for axes in itertools.permutations(range(3))
    },
}


@pytest.mark.parametrize("order", ["C", "F", "A", "K"])
@pytest.mark.parametrize("prototype", PROTOTYPES.values(), ids=PROTOTYPES)
def test_like_makes_what_numpy_makes(prototype, order):
    for name in ("empty_like", "zeros_like", "ones_like"):
        assert_alike(
            getattr(shmarray, name)(prototype, order=order),
            getattr(np, name)(prototype, order=order, subok=False),
        )
    ours = shmarray.full_like(prototype, 7, "f4", order)
    numpys = np.full_like(prototype, 7, "f4", order, subok=False)
    assert_alike(ours, numpys)
    np.testing.assert_array_equal(ours, numpys)


@pytest.mark.parametrize("shape", [(5, 6, 7), (5, 6), 4, ()])
@pytest.mark.parametrize("order", ["C", "F", "A", "K"])
def test_like_takes_another_shape(shape, order):
    for prototype in (PROTOTYPES["f"], PROTOTYPES["axes (1, 0, 2)"]):
        assert_alike(
            shmarray.empty_like(prototype, order=order, shape=shape),
            np.empty_like(prototype, order=order, shape=shape),
        )


def test_an_array_with_a_name_and_mixed_axes_is_found_in_its_own_shape():
    a = shmarray.zeros_like(PROTOTYPES["axes (1, 0, 2)"], name="mixed")
    a[2, 1, 3] = 5
    b = shmarray.attach("mixed")
    assert b.shape == (3, 2, 4)
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("order", ["C", "F", "A", "K"])
@pytest.mark.parametrize(
    "source",
    [
        [[1, 2], [3, 4]],
        5,
        range(4),
        np.arange(6).reshape(2, 3),
        np.arange(6.0).reshape(2, 3).T,
        [],
        memoryview(b"abc"),
    ],
    ids=lambda source: type(source).__name__,
)
def test_array_copies_anything_like_an_array(source, order):
    ours = shmarray.array(source, order=order)
    numpys = np.array(source, order=order)
    assert_alike(ours, numpys)
    np.testing.assert_array_equal(ours, numpys)


def test_array_copies_what_is_shared_already():
    a = shmarray.ones(3)
    b = shmarray.array(a)
    b[0] = 5
    assert a.tolist() == [1, 1, 1]


def test_array_converts_to_a_dtype():
    assert shmarray.array([1, 2], "f4").dtype == np.float32


def test_a_mode_is_what_was_asked(directory):
    a, b = shmarray.zeros(100_000), shmarray.zeros(1, mode=0o640)  # files of their own
    modes = [
        stat.S_IMODE(os.stat(directory / f"shmarray-{shmarray.handle(x).segment}").st_mode)
        for x in (a, b)
    ]
    assert modes == [0o600, 0o640]


def test_a_persistent_array_stays_until_its_name_is_unlinked(run_python, files):
    run_python("import shmarray; shmarray.full(3, 7, name='model', persist=True)")
    assert len(files()) == 2
    assert shmarray.attach("model").tolist() == [7, 7, 7]
    shmarray.unlink("model")
    assert not any("model" in name for name in files())
