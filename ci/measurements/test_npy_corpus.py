"""Tests of the corpus of NPZ files and its targets. `pytest ci/measurements/test_npy_corpus.py`"""

import numpy as np
import pytest
import shmarray
import targets
from rows import npy_corpus
from rows.npy_corpus import ALIGNED, DEFLATED, MEMORY, NUMPY, OURS, SPDL, STORED, corpus


@pytest.fixture(scope="module")
def samples():
    return {name: corpus.make(name) for name in corpus.SAMPLES}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("corpus")
    corpus.save(made)
    return made


@pytest.mark.parametrize("form", corpus.FORMS)
def test_numpy_loads_the_same_samples_from_each_form(folder, samples, form):
    """The folder's samples were made anew, so they also are the same each time."""
    for name, expected in samples.items():
        with np.load(corpus.path(folder, name, form)) as found:
            assert found.files == list(expected)
            for key, array in expected.items():
                np.testing.assert_array_equal(found[key], array, strict=True, err_msg=name)


def offsets(path):
    """Where the arrays of a stored file lie in it."""
    data = path.read_bytes()
    start = np.frombuffer(data, "u1").ctypes.data
    with shmarray.load_npz(data, shared=False) as archive:
        return [(array.dtype, array.ctypes.data - start) for array in archive.values()]


def test_members_lie_at_every_alignment_unless_they_are_saved_with_one(folder):
    found = {
        form: [one for name in corpus.SAMPLES for one in offsets(corpus.path(folder, name, form))]
        for form in (STORED, ALIGNED)
    }
    wide = [offset % 8 for dtype, offset in found[STORED] if dtype.itemsize > 1]
    assert {*wide} == {*range(8)}
    assert {offset % 64 for _, offset in found[ALIGNED]} == {0}


def results(seconds, form):
    """Results in which ours takes so many seconds for a sample, and all others take one."""
    return {
        "figures": [
            {
                "row": npy_corpus.ROW,
                "case": npy_corpus.case(name, form, MEMORY),
                "who": who,
                "median": seconds.get(name, 0.1) if who == OURS else 1.0,
            }
            for name in corpus.SAMPLES
            for who in (OURS, NUMPY, SPDL)
        ]
    }


def judged(seconds, form):
    found = targets.corpus_targets(targets.Figures(results(seconds, form)))
    return {key: (met, words) for key, _, met, words in found if met is not None}


def test_a_target_is_met_if_every_sample_reaches_it():
    found = judged({"mask": 0.4}, DEFLATED)
    assert found.keys() == {"corpus deflated shared", "corpus deflated shared spdl"}
    for met, words in found.values():
        assert met
        assert words.startswith("median 10.00 ×; worst: mask, deflated 2.50 ×")


def test_one_slow_sample_misses_a_target_and_is_named():
    met, words = judged({"graph": 0.9, "mask": 2.0}, DEFLATED)["corpus deflated shared"]
    assert met is False
    assert "2 of 20 below it: mask, deflated 0.50 ×" in words
    assert "graph, deflated 1.11 ×" in words


def test_a_sample_counts_in_both_stored_forms():
    for form in (STORED, ALIGNED):
        met, words = judged({"graph": 4.0}, form)["corpus shared"]
        assert met is False
        assert f"graph, {form} 0.25 ×" in words


def test_the_report_names_the_worst_sample_beside_the_median():
    lines = list(npy_corpus.summary(results({"graph": 0.5}, STORED)["figures"]))
    assert len(lines) == 1
    assert lines[0][0] == f"{STORED}, {MEMORY}"
    assert "10 × (worst: 2 ×, graph)" in lines[0]
