"""Files of other programs read as core's corpus says: core/tests/behaviour/npy_corpus has them, and
make.py there tells what each field of expected.json means.
"""

import io
import json
import tarfile
import zlib
from pathlib import Path

import numpy as np
import pytest

import shmarray

CORPUS = Path(__file__).parents[3] / "core/tests/behaviour/npy_corpus"
EXPECTED = (
    json.loads((CORPUS / "expected.json").read_text(encoding="utf-8")) if CORPUS.is_dir() else []
)
ARRAYS = [expected for expected in EXPECTED if expected["file"].endswith(".npy")]
ARCHIVES = [expected for expected in EXPECTED if expected["file"].endswith(".npz")]
REFUSALS = {
    "object": "Object arrays cannot be loaded when allow_pickle=False",
    "method": "compression method",
    "encrypted": "flags",
    "broken": "file",
}
WAYS = {
    "path, shared": lambda path: (path, True),
    "path, mapped": lambda path: (path, False),
    "bytes, shared": lambda path: (path.read_bytes(), True),
    "bytes, viewed": lambda path: (path.read_bytes(), False),
    "file, shared": lambda path: (io.BytesIO(path.read_bytes()), True),
    "file, private": lambda path: (io.BytesIO(path.read_bytes()), False),
    "reader, shared": lambda path: (OnlyRead(path.read_bytes()), True),
}

pytestmark = pytest.mark.skipif(not EXPECTED, reason="the corpus is not in a source distribution")


class OnlyRead:
    """Has nothing but `read`, and gives it in small parts."""

    def __init__(self, data):
        self.file = io.BytesIO(data)

    def read(self, size):
        return self.file.read(min(size, 1000))


def may_be_refused(expected):
    members = expected.get("members")
    if members and all(member.get("refused") == "broken" for member in members.values()):
        return "broken"
    return expected.get("refused") or ("broken" if expected.get("either") else None)


def check_refusal(expected, error, key=""):
    refused = may_be_refused(expected)
    assert refused, f"it is refused: {error}"
    assert REFUSALS[refused] in error
    assert key in error


def check_array(expected, array):
    """Asserts that an array is what the corpus says."""
    descr = np.lib.format.dtype_to_descr(array.dtype)
    found = {
        "descr": descr if isinstance(descr, str) else repr(descr),
        "shape": list(array.shape),
        "order": "C" if array.flags.c_contiguous else "F",
        "crc32": zlib.crc32(array.tobytes("C")),
    }
    assert found == {key: expected[key] for key in found}


def check_npy(expected, source, shared):
    """Asserts that a file reads as it should, and how much is behind its array."""
    is_stream = hasattr(source, "read")
    if expected["file"].endswith("cut-at-0.npy"):
        with pytest.raises(EOFError, match="No data left"):
            shmarray.load_npy(source, shared=shared)
        return
    try:
        array = shmarray.load_npy(source, shared=shared)
    except ValueError as error:
        check_refusal(expected, str(error))
        return
    except MemoryError:  # nobody knows how much a reader has
        assert isinstance(source, OnlyRead)
        assert expected["file"] == "handmade-shape-larger-than-file.npy"
        return
    if "descr" not in expected:
        assert expected.get("either"), "it is not refused"
        return
    check_array(expected, array)
    assert shmarray.is_shared(array) is shared
    if is_stream:
        file = source if isinstance(source, io.BytesIO) else source.file
        assert len(file.read()) == expected.get("behind", 0)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A folder with the files."""
    folder = tmp_path_factory.mktemp("corpus")
    with tarfile.open(CORPUS / "files.tar.gz") as packed:
        for member in packed:
            (folder / member.name).write_bytes(packed.extractfile(member).read())
    return folder


def by_each_way(expected, corpus):
    """Yields the file, and whether it is to be shared. A way is no parameter of the test: setting a
    test up takes longer than reading a file.
    """
    for name, way in WAYS.items():
        print(name)  # the last one failed
        yield way(corpus / expected["file"])


@pytest.mark.parametrize("expected", ARRAYS, ids=lambda expected: expected["file"])
def test_an_npy_file_of_another_program_reads_as_it_should(expected, corpus):
    for source, shared in by_each_way(expected, corpus):
        check_npy(expected, source, shared)


def check_member(expected, npz, key):
    try:
        member = npz[key]
    except ValueError as error:
        check_refusal(expected, str(error), key)
        return
    if "refused" in expected:
        assert expected.get("either"), f"{key} is not refused"
    elif "descr" in expected:
        check_array(expected, member)
    else:
        assert (type(member), len(member)) == (bytes, expected["bytes"])
        assert zlib.crc32(member) == expected["crc32"]


def check_npz(expected, source, shared, verify):
    """Asserts that an archive and its members read as they should."""
    try:
        npz = shmarray.load_npz(source, shared=shared, verify=verify)
    except ValueError as error:
        check_refusal(expected, str(error))
        return
    if "files" not in expected:
        assert expected.get("either"), "it is not refused"
        return
    assert npz.files == expected["files"]
    for key, member in expected["members"].items():
        # Where nothing asks for it, the checksum of a view is not compared.
        is_unread = "zip-checksum" in expected["file"] and not shared and not verify
        if not is_unread:
            check_member(member, npz, key)


@pytest.mark.parametrize("verify", [False, True], ids=["", "verify"])
@pytest.mark.parametrize("expected", ARCHIVES, ids=lambda expected: expected["file"])
def test_an_npz_file_of_another_program_reads_as_it_should(expected, verify, corpus):
    for source, shared in by_each_way(expected, corpus):
        if isinstance(source, OnlyRead):
            source = memoryview(source.file.getvalue())
        check_npz(expected, source, shared, verify)


def test_the_corpus_has_files_of_both_kinds():
    assert len(ARRAYS) > 50
    assert len(ARCHIVES) > 50
