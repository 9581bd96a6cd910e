"""Writes the files of the corpus that need no other program, and what each file must read as.

    python core/tests/behaviour/npy_corpus/make.py FILE…     adds other programs' files; writes all
    python core/tests/behaviour/npy_corpus/make.py --check   compares with what is there

files.tar.gz has the files. `tar -xzf` unpacks them; each test does so by itself.

origins.toml says which program wrote each file. expected.json is what NumPy reads in it, but for
DIFFERS below. Needs NumPy 2 under a 64-bit Python.

| field | says |
|---|---|
| descr, shape | of the array, as a header of NumPy's has them |
| order | F if the array is contiguous by columns only |
| crc32, crc32_stored | of the elements by rows; if the order is F, also as they are in the file |
| behind | how many bytes follow the array in the file |
| files, members | of an archive: the names in their order, and what each key reads as |
| bytes | the size of a member that is no array |
| refused | object, method, encrypted, or broken |
| either | true if the file may be refused, or read as it says |
"""

import fnmatch
import gzip
import io
import json
import struct
import sys
import tarfile
import tempfile
import warnings
import zipfile
import zlib
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

HERE = Path(__file__).parent
ARCHIVE = HERE / "files.tar.gz"
SIX = struct.pack("<6i", *range(6))

# What we say of files of which NumPy says something else.
DIFFERS = {
    "7z-deflate64.npz": {"big": {"refused": "method"}},
    "7z-aes.npz": {"a": {"refused": "encrypted"}},
    "infozip-encrypted.npz": {"a": {"refused": "encrypted"}},
    "infozip-comment-like-an-end.npz": {"either": True},
    "infozip-prefixed*.npz": {"either": True},
    "handmade-zip-offset-outside.npz": {"a": {"refused": "broken"}},
    "handmade-zip-size-too-small.npz": {"a": {"refused": "broken"}},
    "handmade-zip-local-name-differs.npz": {"a": {"refused": "broken"}},
    "handmade-shape-of-bool.npy": {"refused": "broken"},
    "handmade-header-too-long.npy": {"either": True},
    "handmade-descr-*.npy": {"either": True},
    "handmade-zip-several-disks.npz": {"either": True},
    # A header has literals alone, and each key once.
    "handmade-comment.npy": {"refused": "broken"},
    "handmade-spelled-in-hex.npy": {"refused": "broken"},
    "handmade-doubled-key.npy": {"refused": "broken"},
    # No dtype of ours has no fields.
    "numpy-*-no-fields.npy": {"refused": "broken"},
}


def padded(text, align, newline="\n", prefix=10):
    """Fills a header with spaces up to `align`, as most writers do."""
    spaces = -(prefix + len(text) + len(newline)) % align
    return text + " " * spaces + newline


def file_of(header, data=SIX, version=(1, 0), encoding="latin1"):
    """Returns the bytes of a file with this header."""
    header = header if isinstance(header, bytes) else header.encode(encoding)
    length = struct.pack("<H" if version == (1, 0) else "<I", len(header))
    return b"\x93NUMPY" + bytes(version) + length + header + data


def header_of(descr="'<i4'", order="False", shape="(2, 3)"):
    """Returns a header as NumPy writes it, without what fills it up."""
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"


def julia(descr, shape, data):
    """NPZ.jl: always "<", always columns, 16 bytes, and no newline if nothing is to be filled."""
    text = header_of(f"'<{descr}'", "True", shape)
    fill = -(10 + len(text)) % 16
    return file_of(text + (" " * (fill - 1) + "\n" if fill else ""), data)


def matlab(descr, shape, data, order="True", sign="<"):
    """npy-matlab: also a scalar has two dimensions; at least one byte is filled."""
    return file_of(padded(header_of(f"'{sign}{descr}'", order, shape), 16), data)


def writers():
    """Files as other programs format them, written by us: see origins.toml."""
    yield "npz.jl-bool.npy", julia("b1", "(3,)", b"\1\0\1")
    yield "npz.jl-f8.npy", julia("f8", "(2, 3)", struct.pack("<6d", *range(6)))
    yield "npz.jl-u1-scalar.npy", julia("u1", "()", b"\x07")
    # Just so long that nothing is to be filled.
    yield "npz.jl-no-newline.npy", julia("u1", "(1, 1, 1, 1, 2, 1)", b"\1\2")
    yield "npy-matlab-f4.npy", matlab("f4", "(2, 3)", struct.pack("<6f", *range(6)))
    yield "npy-matlab-logical.npy", matlab("b1", "(1, 2)", b"\1\0")
    yield "npy-matlab-big.npy", matlab("i2", "(3, 1)", struct.pack(">3h", 1, -2, 3), "False", ">")
    yield "npy-matlab-one-dimension.npy", matlab("i4", "(6)", SIX)


def accepted():
    """Headers that NumPy accepts, though it does not write them."""
    plain = header_of()
    yield "double-quotes", file_of(padded(plain.replace("'", '"'), 64))
    yield (
        "unicode-strings",
        file_of(padded("{u'descr': u'<i4', u'fortran_order': False, u'shape': (2, 3)}", 16)),
    )
    yield "other-order-of-keys", file_of("{'shape':(2,3),'fortran_order':False,'descr':'<i4'}\n")
    yield "no-newline", file_of(plain)
    yield "odd-length", file_of(padded(plain, 16, " \n") + "\n")
    yield (
        "newlines-and-tabs",
        file_of(" {\n'descr' :\t'<i4',\n'fortran_order': False,\n'shape': (2 ,\n3)\n}\n\n"),
    )
    yield (
        "doubled-key",
        file_of("{'descr': '<f8', 'descr': '<i4', 'fortran_order': False, 'shape': (2, 3)}\n"),
    )
    yield "longs-without-space", file_of(header_of(shape="(2L,3L)") + "\n")
    yield "trailing-bytes", file_of(padded(plain, 64), SIX + b"behind the array")
    yield "descr-native", file_of(header_of("'=i4'") + "\n")
    yield "descr-bar", file_of(header_of("'|i4'") + "\n")
    yield "descr-no-order", file_of(header_of("'i4'") + "\n")
    yield "descr-name", file_of(header_of("'int32'") + "\n")
    yield "descr-comma", file_of(header_of("'<i2,<i2'") + "\n")
    yield "descr-list-of-lists", file_of(header_of("[['a', '<i2'], ['b', '<i2']]") + "\n")
    yield "big-of-one-byte", file_of(header_of("'>i1'") + "\n", b"\1\2\3\4\5\6")
    yield "comment", file_of(plain + "  # a comment\n")
    yield "spelled-in-hex", file_of(header_of(shape="(0x2, 3)") + "\n")
    yield "header-too-long", file_of(plain + " " * 11000 + "\n")


def refused():
    """Headers and lengths that are wrong."""
    whole = file_of(padded(header_of(), 64))
    for length in (0, 5, 7, 9, 64, len(whole) - 25, len(whole) - 24, len(whole) - 1):
        yield f"cut-at-{length}", whole[:length]
    yield "version-4.0", file_of(padded(header_of(), 64), version=(4, 0))
    yield "version-1.1", b"\x93NUMPY\1\1" + whole[8:]
    yield "magic", b"\x93numpy" + whole[6:]
    yield "longs-in-3.0", file_of(header_of(shape="(2L, 3L)"), version=(3, 0))
    yield "not-utf-8", file_of(b"\xff" + header_of().encode(), version=(3, 0))
    yield "length-beyond-end", b"\x93NUMPY\2\0\xff\xff\xff\xff" + whole[10:]
    for name, shape in {
        "negative": "(-2, 3)",
        "negative-twice": "(-2, -3)",
        "no-tuple": "(6)",
        "list": "[2, 3]",
        "float": "(2.0, 3)",
        "sum": "(1+1, 3)",
        "beyond-64-bits": "(18446744073709551622,)",
        "overflows": "(4611686018427387904, 4)",
        "overflows-to-zero": "(4294967296, 4294967296)",
        "overflows-to-six": "(6148914691236517206, 3)",
        "larger-than-file": "(1099511627776, 3)",
        "65-dimensions": f"({'1, ' * 64}6)",
        "of-bool": "(True, 6)",
        "of-strings": "('2', '3')",
    }.items():
        yield f"shape-{name}", file_of(header_of(shape=shape) + "\n")
    for name, descr in {
        "unknown": "'<q9'",
        "of-size-3": "'<i3'",
        "none": "None",
        "empty": "''",
        "number": "4",
        "bytes": "b'<i4'",
        "same-name-twice": "[('a', '<i2'), ('a', '<i2')]",
    }.items():
        yield f"dtype-{name}", file_of(header_of(descr) + "\n")
    yield "order-a-number", file_of(header_of(order="0") + "\n")
    yield "key-missing", file_of("{'descr': '<i4', 'shape': (2, 3), }\n")
    yield "key-unknown", file_of(header_of().replace("}", "'more': 1}") + "\n")
    yield "no-dictionary", file_of("['<i4', False, (2, 3)]\n")
    yield "a-call", file_of("dict(descr='<i4', fortran_order=False, shape=(2, 3))\n")
    yield "filled-with-zeros", file_of(header_of() + "\0" * 9)
    yield "behind-dictionary", file_of(header_of() + " + {}\n")
    yield "empty-header", file_of("")
    yield "deep", file_of("{'descr': " + "[" * 3000)


def archive(method=zipfile.ZIP_STORED):
    """Returns an archive with one member, a, as bytes that can be changed."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as opened:
        opened.writestr(zipfile.ZipInfo("a.npy"), file_of(padded(header_of(), 64)), method)
    return bytearray(file.getvalue())


def archives():
    """Archives with one thing that is wrong."""
    good = archive()
    central = good.index(b"PK\1\2")
    end = good.index(b"PK\5\6")
    for name, place, wrong in [
        ("checksum", len(good) - 100, b"\xee"),  # a byte of the data, in front of the directory
        ("offset-outside", central + 42, struct.pack("<I", 1 << 30)),
        ("size-too-small", central + 24, struct.pack("<I", 100)),
        ("local-name-differs", 30, b"b"),
        ("directory-outside", end + 16, struct.pack("<I", 1 << 30)),
        ("several-disks", end + 4, struct.pack("<HH", 1, 1)),
    ]:
        changed = bytearray(good)
        place = central - 3 if name == "checksum" else place
        changed[place : place + len(wrong)] = wrong
        yield name, bytes(changed)
    yield "cut", bytes(good[:-5])
    yield "member-cut", bytes(good[: central - 10] + good[central:])
    deflated = archive(zipfile.ZIP_DEFLATED)
    deflated[60:64] = b"\xff\xff\xff\xff"
    yield "deflate-broken", bytes(deflated)


def handmade():
    """Yields the name and the bytes of each file that is made here."""
    yield from writers()
    for name, data in (*accepted(), *refused()):
        yield f"handmade-{name}.npy", data
    for name, data in archives():
        yield f"handmade-zip-{name}.npz", data


def described(array, stored):
    """Returns what an array must read as. `stored` are its elements as they are in the file: with
    their padding, which NumPy does not copy."""
    columns = bool(array.flags.fnc)
    rows = stored
    if columns:
        items = np.frombuffer(stored, f"V{array.itemsize}")
        rows = items.reshape(array.shape, order="F").tobytes("C")
    facts = {
        "descr": str(npy.dtype_to_descr(array.dtype)),
        "shape": list(array.shape),
        "order": "F" if columns else "C",
        "crc32": zlib.crc32(rows),
    }
    return {**facts, "crc32_stored": zlib.crc32(stored)} if columns else facts


def outcome(read):
    """Returns what a function returns, or why it fails."""
    try:
        return read()
    except Exception as error:  # NumPy lets many classes of error through
        return {"refused": "object" if "Object arrays" in str(error) else "broken"}


def file_outcome(data):
    """Returns what NumPy reads in the bytes of an NPY file, and how many bytes follow."""
    file = io.BytesIO(data)
    array = np.load(file)
    end = file.tell()
    facts = described(array, data[end - array.nbytes : end])
    return {**facts, "behind": len(data) - end} if end < len(data) else facts


def member_outcome(arrays, key):
    """Returns what NumPy reads in a member."""
    value = arrays[key]
    if isinstance(value, bytes):
        return {"bytes": len(value), "crc32": zlib.crc32(value)}
    data = arrays.zip.read(key if key in arrays.zip.namelist() else f"{key}.npy")
    facts = file_outcome(data)
    assert facts["descr"] == str(npy.dtype_to_descr(value.dtype))
    return facts


def expected(path):
    """Returns what a file must read as."""
    differs = next((change for p, change in DIFFERS.items() if fnmatch.fnmatch(path.name, p)), {})
    if path.suffix == ".npy":
        data = path.read_bytes()
        facts = {} if "refused" in differs else outcome(lambda: file_outcome(data))
        return {"file": path.name, **facts, **differs}
    if "refused" in differs:
        return {"file": path.name, **differs}
    either = {key: differs[key] for key in differs if key == "either"}
    try:
        opened = zipfile.ZipFile(path)
    except zipfile.BadZipFile:
        return {"file": path.name, "refused": "broken", **either}
    with opened, np.lib.npyio.NpzFile(str(path)) as arrays:
        # Of members with one name the last is meant.
        files = [name.removesuffix(".npy") for name in dict.fromkeys(opened.namelist())]
        keys = dict.fromkeys([*files, *opened.namelist()])
        members = {key: outcome(lambda key=key: member_outcome(arrays, key)) for key in keys}
        by_name = {  # of a member's two names the shorter, unless they are of different members
            key: facts
            for key, facts in members.items()
            if key in files or facts != members[key.removesuffix(".npy")]
        }
        by_name |= {key: differs[key] for key in differs if key != "either"}
        return {"file": path.name, "files": files, "members": by_name, **either}


def files_in(archive):
    """Returns the contents of each file of the corpus by its name."""
    with tarfile.open(archive) as packed:
        return {member.name: packed.extractfile(member).read() for member in packed}


def packed(files):
    """Returns an archive that depends on nothing but the files."""
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in sorted(files.items()):
            facts = tarfile.TarInfo(name)
            facts.size = len(data)
            archive.addfile(facts, io.BytesIO(data))
    return gzip.compress(tar.getvalue(), mtime=0)


def all_expected(files):
    """Returns the text of expected.json."""
    with tempfile.TemporaryDirectory() as folder:
        for name, data in files.items():
            Path(folder, name).write_bytes(data)
        lines = ",\n".join(json.dumps(expected(path)) for path in sorted(Path(folder).iterdir()))
    return f"[\n{lines}\n]\n"


def main():
    warnings.simplefilter("ignore")
    there = files_in(ARCHIVE) if ARCHIVE.exists() else {}
    added = [Path(path) for path in sys.argv[1:] if path != "--check"]
    files = {**there, **{path.name: path.read_bytes() for path in added}, **dict(handmade())}
    text = all_expected(files)
    path = HERE / "expected.json"
    if "--check" not in sys.argv[1:]:
        ARCHIVE.write_bytes(packed(files))
        path.write_text(text)
    wrong = [name for name, data in files.items() if files_in(ARCHIVE).get(name) != data]
    wrong += [path.name] if path.read_text() != text else []
    print("\n".join(f"FAILED {name} differs" for name in wrong), end="\n" if wrong else "")
    print(f"{len(files)} files")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
