"""Writes the golden segments and their index from FORMAT.md alone, without the library, and the
golden lists from LISTS.md.

    python ci/checks/golden/make.py            writes them again
    python ci/checks/golden/make.py --check    fails if the committed ones differ

This is the second implementation of the format: if it and core disagree, one of them is wrong.
"""

import json
import pathlib
import struct
import sys

import list_bytes

HERE = pathlib.Path(__file__).parent
GENERATION = 4503599627370495
UNUSED = 0
LIVE = 1
FREE = 3
DEAD = 4
# The dtypes by name whose elements take several bytes, and all others.
WIDE = {"bfloat16": 2, "complex32": 4, "bcomplex32": 4}
BYTES = [
    *("float8_e3m4", "float8_e4m3", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz"),
    *("float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
    *("float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"),
    *("int1", "int2", "int4"),
    *("uint1", "uint2", "uint4"),
    "float8_e5m3fnu",
]
PERSIST = 1  # so that walking them does not give them back
LOCK_ONLY = 2


def segment_id(number):
    return f"goldengoldengoldengold{'abcdefghij'[number // 10]}{'abcdefghij'[number % 10]}"


def dtype_itemsize(dtype):
    if isinstance(dtype, dict):
        return dtype["itemsize"]
    if dtype[0] not in "<>|":
        return WIDE.get(dtype, 1)
    count = int(dtype[2:].split("[")[0])
    return 4 * count if dtype[1] == "U" else count


def c_strides(shape, itemsize):
    strides = []
    step = itemsize
    for count in reversed(shape):
        strides.insert(0, step)
        step *= max(count, 1)
    return strides


class Segment:
    HEAD_BYTES = 512

    def __init__(
        self, number, dtype, shape, data, strides=None, name="", minor=0, optional=0, leases=0
    ):
        self.id = segment_id(number)
        self.dtype = json.dumps(dtype, separators=(",", ":"), ensure_ascii=False)
        self.itemsize = dtype_itemsize(dtype)
        self.shape = shape
        self.data = data
        self.name = name
        self.strides = strides if strides is not None else c_strides(shape, self.itemsize)
        self.minor = minor
        self.optional = optional
        self.leases = leases

    def write(self, kind=1, cell_bytes=0, heads=()):
        """The file's bytes, by the tables of FORMAT.md."""
        dtype = self.dtype.encode()
        in_first_page = 1120 + len(dtype) <= 2048
        header_bytes = 4096 if in_first_page else 4096 + -(-(1120 + len(dtype)) // 4096) * 4096
        header_bytes += -(-self.HEAD_BYTES * len(heads) // 4096) * 4096
        start = 256 if in_first_page else 4096
        room = 2048 if in_first_page else header_bytes - 4096
        identity = struct.pack(
            "<8sIIQQ24sQQQIIQIIIIQII",
            b"shmarray", 1, self.minor, 0, self.optional, self.id.encode(),
            header_bytes, header_bytes + len(self.data), len(self.data),
            kind, 4242, 1_700_000_000_000_000_000, start, room, 2304, self.leases, cell_bytes,
            len(heads), self.HEAD_BYTES if heads else 0,
        )  # fmt: skip
        words = struct.pack("<QQQ", LIVE, 0 if heads else GENERATION, PERSIST)
        ndim = len(self.shape)
        description = struct.pack(
            "<IIQQII64s64Q64q",
            ndim, len(dtype), self.itemsize, 0, len(self.name), 0, self.name.encode(),
            *self.shape, *[0] * (64 - ndim), *self.strides, *[0] * (64 - ndim),
        )  # fmt: skip
        header = bytearray(header_bytes)
        # A dead holder: no process has its byte of the registry locked.
        lease = struct.pack("<QQ", 77 << 1 | 1, 4242) if self.leases else b""
        parts = [(0, identity), (128, words), (start, description + dtype), (2304, lease)]
        parts += [(4096 + self.HEAD_BYTES * cell, head) for cell, head in enumerate(heads)]
        for offset, part in parts:
            header[offset : offset + len(part)] = part
        return bytes(header) + self.data

    def handle(self, **changes):
        fields = {
            "shmarray": 1,
            "segment": self.id,
            "generation": GENERATION,
            "offset": 0,
            "dtype": json.loads(self.dtype),
            "shape": self.shape,
            "strides": self.strides,
        }
        return json.dumps(fields | changes, separators=(",", ":"), ensure_ascii=False)

    def elements(self, offset=0, shape=None, strides=None):
        """The elements' bytes in C order, one by one."""
        shape = self.shape if shape is None else shape
        strides = self.strides if strides is None else strides
        offsets = [offset]
        for count, stride in zip(shape, strides, strict=True):
            offsets = [start + at * stride for start in offsets for at in range(count)]
        return b"".join(self.data[start : start + self.itemsize] for start in offsets).hex() or "-"


class Cells(Segment):
    """A slab, which the drivers reach by the handle of its first array."""

    CELL_BYTES = 4096

    def __init__(self, number, arrays):
        """Each array is (dtype, shape, bytes), or None for a free cell."""
        self.arrays = arrays
        first = arrays[0]
        super().__init__(number, first[0], first[1], first[2])

    def write(self):
        data = b"".join(
            (array[2] if array else b"").ljust(self.CELL_BYTES, b"\xee") for array in self.arrays
        )
        whole = Segment(0, "|u1", [len(data)], data)
        whole.id = self.id
        whole.HEAD_BYTES = self.HEAD_BYTES
        return whole.write(2, self.CELL_BYTES, [self.head(array) for array in self.arrays])

    def head(self, array):
        if array is None:
            return struct.pack("<QQQQ", FREE | 8 << 3, GENERATION, 0, 0)
        dtype, shape, data = array
        # LOCK_ONLY, so that attaching and closing the cell does not free it.
        words = struct.pack("<QQQQ", LIVE | 2 << 3, GENERATION, LOCK_ONLY, len(data))
        text = json.dumps(dtype).encode()
        described = struct.pack(
            "<II24s8Q", len(shape), len(text), text, *shape, *[0] * (8 - len(shape))
        )
        return words + described

    def handle(self, cell=0, **changes):
        dtype, shape, _ = (self.arrays[cell] if cell < len(self.arrays) else None) or self.arrays[0]
        fields = {"segment": f"{self.id}.{cell}", "dtype": dtype, "shape": shape}
        fields |= {"strides": c_strides(shape, dtype_itemsize(dtype))}
        return super().handle(**(fields | changes))


class OneCell(Cells):
    """A slab with a single cell, whose head has as many entries as it has room for."""

    HEAD_BYTES = 4096
    CELL_BYTES = 20 * 4096


class ChannelFile(Segment):
    """A channel with two slots: one free, one with a message. Its parts lie further apart than the
    library would place them.
    """

    HEAD_BYTES = 256
    SLOT_BYTES = 64
    QUEUE = 1
    BLOCK = 1
    FIXED = 1
    RING = 5376
    ENDS = 6144
    SLOTS = 7168
    ENDS_COUNT = 4
    FREE = 0
    NUMBERED = 2
    NOBODY = 1023
    CLOSED = 1
    SENT_AND_LEFT = 1 << 8 | 4 | 1
    META = b"golden"

    def write(self):
        whole = bytearray(super().write(3, self.SLOT_BYTES, [b"", b""]))
        fields = struct.pack(
            "<10IQ",
            self.QUEUE, self.BLOCK, self.FIXED, 2, self.ENDS_COUNT, 256,
            self.RING, self.ENDS, self.SLOTS, 0, 77,
        )  # fmt: skip
        number = 2  # the first of a ring of two words
        words = [(128, number + 1), (256, number), (648, self.CLOSED), (656, 1)]
        head = struct.pack("<QQQII", self.NUMBERED | 0 << 3 | 1 << 13, number, 1234, 6, 0)
        parts = [
            (136, struct.pack("<Q", GENERATION)),
            (4096, fields),
            *[(4096 + offset, struct.pack("<Q", word)) for offset, word in words],
            (self.ENDS + 16, struct.pack("<Q", self.SENT_AND_LEFT)),
            (self.RING, struct.pack("<QQ", number << 10 | 1, 1 << 10)),
            (self.SLOTS, struct.pack("<Q", self.FREE | self.NOBODY << 3)),
            (self.SLOTS + 256, head),
            (self.SLOTS + 256 + 32, struct.pack("<Q", self.SLOT_BYTES // 4)),
            (self.SLOTS + 256 + 128, self.META),
        ]
        for offset, part in parts:
            whole[offset : offset + len(part)] = part
        return bytes(whole)


def channels():
    """Channels by the names of their files. `core/tests/behaviour/channels` opens them."""
    slots = bytes(64) + struct.pack("<4i", 1, -2, 3, -4).ljust(64, b"\0")
    return {"queue": ChannelFile(60, "<i4", [4], slots, name="golden.channel")}


def golden_segments():
    def ramp(count):
        return bytes((7 * k + 1) % 256 for k in range(count))

    long_dtype = {"descr": [[f"field_{n}", "<i4"] for n in range(120)], "itemsize": 480}
    padded = {"descr": [["a", "|i1"], ["", "|V3"], ["b", "<f4", [2]]], "itemsize": 12}
    return {
        "int32_c_order": Segment(0, "<i4", [2, 3, 4], struct.pack("<24i", *range(-12, 12))),
        "float64_f_order": Segment(
            1, "<f8", [2, 3], struct.pack("<6d", 1, -2, 0.5, 3e300, -0.0, 7), [8, 16]
        ),
        "complex128_scalar": Segment(2, "<c16", [], struct.pack("<2d", 2.5, -1.5)),
        "uint8_empty": Segment(3, "|u1", [0, 3], b""),
        "bool_named": Segment(4, "|b1", [4], b"\1\0\1\1", name="golden.bool"),
        "float16": Segment(5, "<f2", [3], struct.pack("<3e", 0.5, -2, 65504)),
        "int64_later_minor": Segment(
            6, "<i8", [2], struct.pack("<2q", -1, 2**62), minor=7, optional=1 << 40
        ),
        "big_endian": Segment(7, ">i4", [3], struct.pack(">3i", 1, -2, 3)),
        "datetime": Segment(8, "<M8[us]", [2], struct.pack("<2q", 0, 1_700_000_000_000_000)),
        "text": Segment(9, "<U3", [2], "añ\0b\u20ac\0".encode("utf-32-le")),
        "structured_padded": Segment(10, padded, [2], ramp(24)),
        "structured_long": Segment(11, long_dtype, [2], ramp(960)),
        "with_a_dead_holder": Segment(13, "<i2", [2], struct.pack("<2h", 300, -300), leases=112),
        "sixty_four_dimensions": Segment(12, "|i1", [1] * 63 + [2], b"\x05\xfb"),
        "uint32": Segment(16, "<u4", [2], struct.pack("<2I", 7, 2**32 - 1)),
        "uint64": Segment(17, "<u8", [2], struct.pack("<2Q", 7, 2**64 - 1)),
        "float32": Segment(18, "<f4", [3], struct.pack("<3f", 0.5, -2, float("-inf"))),
        "complex64": Segment(19, "<c8", [2], struct.pack("<4f", 2.5, -1.5, 0, 96)),
        "bfloat16": Segment(21, "bfloat16", [3], struct.pack("<3H", 0x3F80, 0xC000, 0xFF80)),
        "complex32": Segment(22, "complex32", [2], struct.pack("<4e", 2.5, -1.5, 0, 96)),
        "bcomplex32": Segment(23, "bcomplex32", [1], struct.pack("<2H", 0x4020, 0xBFC0)),
        **{name: Segment(24 + at, name, [256], bytes(range(256))) for at, name in enumerate(BYTES)},
        "cells": Cells(
            14,
            [
                ("<i4", [2, 2], struct.pack("<4i", 1, -1, 2**31 - 1, -(2**31))),
                None,
                ("<f8", [3], struct.pack("<3d", 0.25, -8, 1e-300)),
            ],
        ),
        "one_cell": OneCell(15, [("<u2", [40_000], bytes(range(250)) * 320)]),
    }


def bad_segments():
    """The bytes of bad files by name, and the words that the error must contain."""
    good = Segment(50, "<i4", [4], bytes(16))
    whole = good.write()

    def patched(offset, patch):
        return whole[:offset] + patch + whole[offset + len(patch) :]

    cells = Cells(50, [("<i4", [4], bytes(16))]).write()

    def cells_patched(offset, patch):
        return cells[:offset] + patch + cells[offset + len(patch) :]

    return {
        "cells_without_heads": (cells_patched(120, struct.pack("<I", 9)), "cells"),
        "cells_with_small_heads": (cells_patched(124, struct.pack("<I", 256)), "head_bytes"),
        "cells_with_odd_heads": (cells_patched(124, struct.pack("<I", 520)), "head_bytes"),
        "cells_with_huge_heads": (cells_patched(124, struct.pack("<I", 8192)), "head_bytes"),
        "no_cells": (cells_patched(120, struct.pack("<I", 0)), "cells"),
        "cells_not_pages": (cells_patched(112, struct.pack("<Q", 4095)), "cell_bytes"),
        "cells_outside": (cells_patched(112, struct.pack("<Q", 1 << 62)), "cell_bytes"),
        "cells_taken_whole": (cells, "no such cell"),
        "truncated_in_identity": (whole[:100], "4096"),
        "truncated_in_header": (whole[:1000], "segment_bytes"),
        "truncated_in_data": (whole[:-1], "segment_bytes"),
        "other_magic": (patched(0, b"SHMARRAY"), "magic"),
        "next_major": (patched(8, struct.pack("<I", 2)), "layout 2.0"),
        "required_feature": (
            patched(16, struct.pack("<Q", 1 << 63)),
            "features 0x8000000000000000",
        ),
        "another_id": (patched(32, b"x"), "id"),
        "header_not_pages": (patched(56, struct.pack("<Q", 4097)), "header_bytes"),
        "header_huge": (patched(56, struct.pack("<Q", 1 << 62)), "header_bytes"),
        "segment_huge": (patched(64, struct.pack("<Q", 1 << 62)), "segment_bytes"),
        "data_overflows": (patched(72, struct.pack("<Q", 2**64 - 4096)), "data_bytes"),
        "other_kind": (patched(80, struct.pack("<I", 77)), "kind"),
        "description_outside": (patched(96, struct.pack("<I", 4000)), "description_offset"),
        "leases_elsewhere": (patched(104, struct.pack("<I", 2320)), "leases_offset"),
        "too_many_leases": (patched(108, struct.pack("<I", 113)), "leases_count"),
        "dead": (patched(128, struct.pack("<Q", DEAD)), "no segment"),
        "unborn": (patched(128, struct.pack("<Q", 0)), "no segment"),
        "other_generation": (patched(136, struct.pack("<Q", 5)), "stale"),
        "too_many_dimensions": (patched(256, struct.pack("<I", 65)), "ndim"),
        "dtype_too_long": (patched(260, struct.pack("<I", 2**32 - 1)), "dtype_bytes"),
        "item_of_another_size": (patched(264, struct.pack("<Q", 8)), "itemsize"),
        "offset_outside": (patched(272, struct.pack("<Q", 4)), "shape"),
        "shape_outside": (patched(352, struct.pack("<Q", 5)), "shape"),
        "strides_wild": (patched(864, struct.pack("<q", -(2**63))), "shape"),
        "dtype_of_objects": (patched(1376, b'"|O"'), "dtype"),
    }, good.handle()


def good_handles(golden):
    """Handles of views, and the bytes that each view shows."""
    ints = golden["int32_c_order"]
    floats = golden["float64_f_order"]
    views = [
        (ints, {"offset": 92, "shape": [24], "strides": [-4]}),
        (ints, {"offset": 4, "shape": [2, 2], "strides": [48, 8]}),
        (ints, {"offset": 8, "shape": [3, 0], "strides": [4, 4]}),
        (ints, {"offset": 20, "shape": [5], "strides": [0]}),
        (ints, {"offset": 96, "shape": [0], "strides": [4]}),
        (floats, {"offset": 0, "shape": [3, 2], "strides": [16, 8]}),
    ]
    made = [(one.handle(**view), one.elements(**view)) for one, view in views]
    spaced = ints.handle().replace(",", " ,\t").replace(":", " : ")
    backwards = json.dumps(dict(reversed(json.loads(ints.handle()).items())))
    sent = ints.handle(ticket=12345)
    cells = golden["cells"]
    made.append((cells.handle(2), cells.arrays[2][2].hex()))
    made.append(
        (
            cells.handle(2, offset=16, shape=[2], strides=[-8]),
            (cells.arrays[2][2][16:] + cells.arrays[2][2][8:16]).hex(),
        )
    )
    return made + [(text, ints.elements()) for text in (spaced, backwards, sent)]


def bad_handles(golden):
    assert golden["cells"].arrays[1] is None
    good = golden["int32_c_order"].handle()

    def with_(old, new):
        assert old in good
        return good.replace(old, new)

    return [
        (with_('"offset":0,', ""), "offset"),
        (with_('"offset":0,', '"offset":0,"offset":0,'), "offset"),
        (with_('"offset":0,', '"offset":0,"colour":0,'), "colour"),
        (with_('"offset":0', '"offset":null'), "offset"),
        (with_('"offset":0', '"offset":-1'), "offset"),
        (with_('"offset":0', '"offset":1e99'), "offset"),
        (with_('"offset":0', '"offset":4'), "offset"),
        (with_('"shmarray":1', '"shmarray":2'), "shmarray"),
        (with_(f'"generation":{GENERATION}', '"generation":9007199254740992'), "generation"),
        (with_(f'"generation":{GENERATION}', '"generation":"7"'), "generation"),
        (with_(f'"generation":{GENERATION}', '"generation":7'), "stale"),
        (with_("[2,3,4]", "[2,3,18446744073709551616]"), "shape"),
        (with_("[2,3,4]", "[4294967296,4294967296,4294967296]"), "shape"),
        (with_("[2,3,4]", "[2,3,5]"), "shape"),
        (with_("[2,3,4]", "[2,3]"), "strides"),
        (with_("[2,3,4]", "{}"), "shape"),
        (with_("[48,16,4]", "[-48,16,4]"), "strides"),
        (with_("[48,16,4]", "[48,16,9223372036854775807]"), "strides"),
        (with_('"<i4"', '"i4"'), "dtype"),
        (with_('"<i4"', '"|O8"'), "dtype"),
        (with_('"<i4"', "4"), "dtype"),
        (with_('"<i4"', '{"descr":[["a","<i4"]]}'), "dtype"),
        (with_('"<i4"', '"float9_e4m4"'), "dtype"),
        (with_('"<i4"', '"int32"'), "dtype"),
        (with_('"<i4"', '{"descr":"int4","itemsize":1}'), "dtype"),
        (with_("goldengold", "../../../e"), "segment"),
        (with_("goldengoldaa", "goldengoldzz"), "no segment"),
        (with_('aa"', 'aa.01"'), "segment"),
        (with_('aa"', 'aa.1"'), "no such cell"),
        (golden["cells"].handle(1), "no segment"),
        (golden["cells"].handle(3, dtype="<i4", shape=[1], strides=[4]), "no such cell"),
        (golden["cells"].handle(2, shape=[4]), "shape"),
        (golden["cells"].handle(2, generation=7), "stale"),
        (good + "{}", "handle"),
        (good[:50], "handle"),
        ("{}", "missing field"),
    ]


def files():
    golden = golden_segments()
    bad, bad_handle = bad_segments()
    segments = [
        {
            "file": name,
            "id": one.id,
            "handle": one.handle(),
            "dtype": json.loads(one.dtype),
            "shape": one.shape,
            "strides": one.strides,
            "bytes": one.elements(),
        }
        for name, one in golden.items()
    ]
    index = {
        "segments": segments,
        "handles": [{"text": text, "bytes": shown} for text, shown in good_handles(golden)],
        "bad_segments": [{"file": name, "says": says} for name, (_, says) in bad.items()],
        "bad_segment_id": segment_id(50),
        "bad_segment_handle": bad_handle,
        "bad_handles": [{"text": text, "says": says} for text, says in bad_handles(golden)],
    }
    made = {f"segments/{name}": one.write() for name, one in golden.items()}
    made |= {f"bad_segments/{name}": contents for name, (contents, _) in bad.items()}
    made |= {f"channels/{name}": one.write() for name, one in channels().items()}
    made["index.json"] = one_item_a_line(index).encode()
    return made


def one_item_a_line(index):
    def text(value):
        if isinstance(value, list):
            return "[\n" + ",\n".join(map(text, value)) + "\n]"
        return json.dumps(value, ensure_ascii=False)

    members = (f"{json.dumps(name)}: {text(value)}" for name, value in index.items())
    return "{\n" + ",\n".join(members) + "\n}\n"


def main():
    made = {**files(), **dict(list_bytes.files())}
    if "--check" in sys.argv:
        there = {
            str(p.relative_to(HERE)) for p in HERE.rglob("*") if p.is_file() and p.suffix != ".py"
        }
        differing = [
            name
            for name in made
            if not (HERE / name).exists() or (HERE / name).read_bytes() != made[name]
        ]
        if differing or there != set(made):
            sys.exit(f"golden files differ from the pages: {differing or there ^ set(made)}")
        print(f"{len(made)} golden files are what FORMAT.md and LISTS.md say")
        return
    for name, contents in made.items():
        path = HERE / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(contents)


if __name__ == "__main__":
    main()
