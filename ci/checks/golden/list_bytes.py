"""Writes golden lists from core/LISTS.md alone, without the library, for make.py."""

import json
import struct

KINDS = (
    "numbers",
    "arrays",
    "strings",
    "bytes",
    "records",
    "lists",
    "pickles",
    "nothing",
    "entries",
)
CODES = {"|u1": "B", "<i4": "i", "<i8": "q", "<f8": "d", "<u2": "H"}


class Column:
    """A column, by what the page calls its fields. Items are as in the index: bytes are hex."""

    def __init__(
        self, kind, items, dtype="", ndim=0, children=(), uniform=False, item=0, class_=""
    ):
        self.kind, self.items, self.ndim = kind, items, ndim
        self.dtype = json.dumps(dtype) if dtype else ""
        self.order, self.code = ("<", "") if not dtype else (dtype[0], CODES[dtype])
        self.children = list(children)
        self.uniform = uniform
        self.item, self.class_ = item, class_

    def packed(self, number):
        order = "<" if self.order == "|" else self.order
        return struct.pack(order + self.code, number)

    def values(self):
        """The bytes of each item."""
        for item in self.items:
            match self.kind:
                case "numbers":
                    yield self.packed(0 if item is None else item)
                case "arrays":
                    yield b"".join(map(self.packed, [] if item is None else item["elements"]))
                case "strings":
                    yield (item or "").encode()
                case "bytes" | "pickles":
                    yield bytes.fromhex(item or "")
                case _:
                    yield b""

    def sizes(self, values):
        """How much each item has of what the offsets count."""
        match self.kind:
            case "arrays":
                size = struct.calcsize(self.code)
                return [len(value) // size for value in values]
            case "lists":
                return [len(item or []) for item in self.items]
            case _:
                return [len(value) for value in values]


def tree(column):
    yield column
    for _, child in column.children:
        yield from tree(child)


def numbers_of(numbers):
    return struct.pack(f"<{len(numbers)}q", *numbers)


def fnv_1a(data):
    found = 0xCBF29CE484222325
    for byte in data:
        found = (found ^ byte) * 0x100000001B3 % 2**64
    return found


def hash_table(keys):
    """The table of a dictionary that has these keys."""
    count = 1
    while count < 2 * len(keys.items):
        count *= 2
    words = [0] * count
    for entry, key in enumerate(keys.values()):
        found = fnv_1a(key)
        place = found % count
        while words[place]:
            place = (place + 1) % count
        words[place] = found >> 40 << 40 | entry + 1
    return struct.pack(f"<{count}Q", *words)


class Writer:
    def __init__(self, root):
        self.root, self.texts, self.heads = root, b"", []
        count = sum(1 for _ in tree(root))
        self.body, self.first = b"", 64 + 128 * count

    def place(self, data, has=True):
        """Adds a part behind the others, at a multiple of 64."""
        if not has:
            return 0
        self.body += bytes(-(self.first + len(self.body)) % 64)
        start = self.first + len(self.body)
        self.body += data
        return start

    def text(self, text):
        start = len(self.texts)
        self.texts += text.encode()
        return start, len(text.encode())

    def add(self, name, column):
        items, kind = column.items, column.kind
        nulls = sum(item is None for item in items)
        bits = bytearray(-(-len(items) // 8))
        for at, item in enumerate(items):
            bits[at // 8] |= (item is not None) << at % 8
        values = list(column.values())
        if kind == "pickles":
            values = [value + bytes(-len(value) % 64) for value in values]
        offsets = [0]
        for size in column.sizes(values):
            offsets.append(offsets[-1] + size)
        shapes = []
        if kind == "arrays":
            shapes = [[0] * column.ndim if item is None else item["shape"] for item in items]
        rows = shapes[:1] if column.uniform else shapes * (column.ndim > 1)
        has_values = kind not in ("records", "lists", "nothing")
        has_offsets = kind not in ("numbers", "records", "nothing", "entries")
        has_offsets &= not column.uniform
        number = KINDS.index(kind) + 1
        head = struct.pack("<BBHI", number, column.item, column.ndim, len(column.children))
        head += struct.pack("<2Q", len(items), nulls)
        head += struct.pack("<Q", self.place(bytes(bits), nulls > 0 and kind != "nothing"))
        data = hash_table(column.children[0][1]) if kind == "entries" else b"".join(values)
        head += struct.pack("<2Q", self.place(data, has_values), len(data))
        head += struct.pack("<Q", self.place(numbers_of(offsets), has_offsets))
        head += struct.pack("<Q", self.place(numbers_of(sum(rows, [])), bool(rows)))
        for text in (name, column.dtype, column.class_):
            head += struct.pack("<2I", *self.text(text))
        self.heads.append(head.ljust(128, b"\0"))
        for child_name, child in column.children:
            self.add(child_name, child)

    def bytes(self):
        self.add("", self.root)
        start = self.place(self.texts)
        size = self.first + len(self.body)
        header = b"shmalist" + struct.pack("<2I", 1, len(self.heads))
        header += struct.pack("<4Q", size, len(self.root.items), start, len(self.texts))
        return header.ljust(64, b"\0") + b"".join(self.heads) + self.body


def array(shape, *elements):
    return {"shape": shape, "elements": list(elements)}


def record(columns, **python):
    """A column of records with these fields, and its items."""
    length = len(columns[0][1].items)
    items = [{name: column.items[at] for name, column in columns} for at in range(length)]
    return Column("records", items, children=columns, **python)


def nested(items, child, **python):
    return Column("lists", items, children=[("", child)], **python)


def entries(keys, values):
    items = list(zip(keys.items, values.items, strict=True))
    return Column("entries", items, children=[("", keys), ("", values)])


def lists():
    """The golden lists by name."""
    words = ["", "naïve", None, "text"]
    ragged = [array([2], 1.5, -2.5), array([0]), array([3], 0.0, 1.0, 2.0), None]
    images = [array([1, 2], 1, 2), None, array([2, 1], 3, 4), array([0, 5])]
    return {
        "numbers": Column("numbers", [1, -2, 2**40], "<i8"),
        "numbers_or_none": Column("numbers", [1, None, 3] + [None] * 7, "<i4"),
        "no_numbers": Column("numbers", [], "<f8"),
        "ragged": Column("arrays", ragged, "<f8", 1),
        "images": Column("arrays", images, "<u2", 2),
        "one_shape": Column(
            "arrays", [array([2, 2], *range(at, at + 4)) for at in range(3)], "|u1", 2, uniform=True
        ),
        "strings": Column("strings", words),
        "bytes": Column("bytes", ["00ff", "", None]),
        "nothing": Column("nothing", [None] * 3),
        "nested": nested(
            [[["a"], []], None, [["b", None]]],
            nested([["a"], [], ["b", None]], Column("strings", ["a", "b", None])),
        ),
        "records": record(
            [
                ("label", Column("numbers", [3, None, 5, 7], "<i4")),
                ("text", Column("strings", words)),
                ("samples", Column("arrays", ragged, "<f8", 1)),
                ("no name, but «UTF-8»", Column("nothing", [None] * 4)),
            ]
        ),
        "scalars": Column("numbers", [1.5, None, -2.5], "<f8", item=1),
        "tuples": nested([[1, 2], [], None], Column("numbers", [1, 2], "<i8", item=1), item=2),
        "pairs": record(
            [
                ("0", Column("arrays", [array([1], 1.5), array([2], 2.5, 3.5)], "<f8", 1)),
                ("1", Column("numbers", [3, 4], "<i8", item=1)),
            ],
            item=2,
        ),
        "of_a_class": record(
            [
                ("url", Column("strings", ["a", "b"])),
                ("fragment", Column("strings", ["", "ä"])),
            ],
            item=3,
            class_="urllib.parse\nDefragResult",
        ),
        "dictionary": entries(
            Column("strings", ["", "ä", *(f"key {number}" for number in range(20))]),
            Column("numbers", [*range(21), None], "<i8", item=1),
        ),
        "pickles": Column("pickles", ["01" * 70, "02"]),
    }


def files():
    """The golden files of lists by path, and their index."""
    made = lists()
    others = ("pickles", "entries")
    index = {name: column.items for name, column in made.items() if column.kind not in others}
    yield "lists/index.json", (json.dumps(index, indent=1, ensure_ascii=False) + "\n").encode()
    for name, column in made.items():
        yield f"lists/{name}", Writer(column).bytes()
