"""Lists and dictionaries between two drivers: what is made, and what must be in it.

../drivers/README.md says what the items of each kind are. They stand here as plain values, so a
driver is compared with neither itself nor its maker.
"""

import json
import sys

from drivers import CHECKS

GOLDEN = CHECKS / "golden"
sys.path.append(str(GOLDEN))
import make  # noqa: E402 (of a folder that is no package)

# The first numbers of a pattern, by the letter of its dtype.
NUMBERS = {
    "b": [True, False, False, True, False, False, True, False],
    "i": [-17, -10, -3, 4, 11, 18, 25, 32],
    "u": [3, 10, 17, 24, 31, 38, 45, 52],
    "f": [-3.25, -2.75, -2.25, -1.75, -1.25, -0.75, -0.25, 0.25],
    "c": [
        *([-3.25, 2.5], [-2.75, 1.5], [-2.25, 0.5], [-1.75, -0.5]),
        *([-1.25, -1.5], [-0.75, -2.5], [-0.25, -3.5], [0.25, -4.5]),
    ],
}
DTYPES = (
    "|b1",
    "|i1",
    "<i2",
    "<i4",
    "<i8",
    "|u1",
    "<u2",
    "<u4",
    "<u8",
    "<f4",
    "<f8",
    "<c8",
    "<c16",
)
STRINGS = ["", "é", "é\0", 'é\0"', 'é\0"😀']
BYTES = ["", "00", "0055", "0055aa", "0055aaff"]
NOTHING = [None] * 5


def numbers(dtype):
    return NUMBERS[dtype[1]][:5]


def array(shape, elements):
    return {"shape": shape, "elements": elements}


def vectors(dtype):
    found = NUMBERS[dtype[1]]
    return [array([len(part)], part) for part in ([], found[1:2], found[2:4], [], found[4:5])]


def images(dtype):
    found = NUMBERS[dtype[1]]
    parts = ([], found[1:3], found[2:6], [], found[4:6])
    return [array([len(part) // 2, 2], part) for part in parts]


def same(dtype):
    return [array([2, 2], NUMBERS[dtype[1]][k : k + 4]) for k in range(5)]


def maybe(items):
    return [items[0], None, items[2], items[3], None]


def lists(items):
    return [[], items[1:2], items[2:4], [], items[4:5]]


def records(**fields):
    return [dict(zip(fields, values, strict=True)) for values in zip(*fields.values(), strict=True)]


RECORDS = records(
    text=STRINGS,
    size=maybe(numbers("<i8")),
    sample=vectors("<f4"),
    größe=lists(maybe(STRINGS)),
    point=records(x=numbers("<f8"), flag=numbers("|b1")),
    none=NOTHING,
)
KINDS = {
    **{dtype: numbers(dtype) for dtype in DTYPES},
    **{f"vectors-{dtype}": vectors(dtype) for dtype in DTYPES},
    "images-|u1": images("|u1"),
    "images-<c8": images("<c8"),
    "same-<f4": same("<f4"),
    "strings": STRINGS,
    "bytes": BYTES,
    "nothing": NOTHING,
    "empty": [],
    "records": RECORDS,
    "maybe-<i8": maybe(numbers("<i8")),
    "maybe-strings": maybe(STRINGS),
    "maybe-bytes": maybe(BYTES),
    "maybe-vectors-<f4": maybe(vectors("<f4")),
    "maybe-images-|u1": maybe(images("|u1")),
    "maybe-records": maybe(RECORDS),
    "lists-<i8": lists(numbers("<i8")),
    "lists-strings": lists(STRINGS),
    "lists-vectors-<f4": lists(vectors("<f4")),
    "lists-records": lists(RECORDS),
    "maybe-lists-bytes": maybe(lists(BYTES)),
    "lists-lists-maybe-strings": lists(lists(maybe(STRINGS))),
}


def found(keys, values, absent):
    """What a dictionary's keys find, and then one that is absent."""
    return [*map(list, zip(keys, values, strict=True)), [absent, "absent"]]


DICTIONARIES = {
    "strings": found(STRINGS, KINDS["maybe-<i8"], "absent"),
    "bytes": found(BYTES, KINDS["maybe-<i8"], b"absent".hex()),
    "<i8": found(numbers("<i8"), KINDS["maybe-<i8"], 0),
}
GOLDEN_KEYS = ["", "ä", *(f"key {number}" for number in range(20))]
GOLDEN_DICTIONARY = found(GOLDEN_KEYS, [*range(21), None], "absent")

# The values and the offsets of a kind, or of a field of it. Numbers have no offsets.
COLUMNS = {
    ("<i8",): (numbers("<i8"), None),
    ("strings",): (list("".join(STRINGS).encode()), [0, 0, 2, 5, 9, 17]),
    ("bytes",): (list(bytes.fromhex("".join(BYTES))), [0, 0, 1, 3, 6, 10]),
    ("vectors-<f4",): (NUMBERS["f"][1:5], [0, 0, 1, 3, 3, 4]),
    ("images-|u1",): (
        NUMBERS["u"][1:3] + NUMBERS["u"][2:6] + NUMBERS["u"][4:6],
        [0, 0, 2, 6, 6, 8],
    ),
    ("records", "text"): (list("".join(STRINGS).encode()), [0, 0, 2, 5, 9, 17]),
    ("records", "sample"): (NUMBERS["f"][1:5], [0, 0, 1, 3, 3, 4]),
}

RUBY_NUMBERS = ("|b1", "<i8", "<f8", "<c16")
NUMO_LACKS = "vectors-|b1"


def cannot_make(maker, kind):
    """Returns why a language makes no lists of a kind. None if it must."""
    if maker in ("ruby", "numo") and kind in DTYPES and kind not in RUBY_NUMBERS:
        return "a list of Ruby's numbers has one of four dtypes"
    if maker == "cpp" and kind in ("maybe-records", "lists-records"):
        return "C++ makes only lists of records that are all there"
    if maker == "numo" and kind == NUMO_LACKS:
        return "Numo::Bit packs bits, a bool is a byte"
    return None


def says(expected):
    """Whether an answer has these values: 1, 1.0 and true are different ones."""
    text = json.dumps(expected)
    return lambda answer: answer.startswith("ok ") and json.dumps(json.loads(answer[3:])) == text


def refuses(words):
    return lambda answer: answer.startswith("error ") and words in answer.lower()


def made_by(maker, kind, what, tally):
    """Returns the handle of a new list."""
    made = maker.ask(f"list a {kind}")
    return made[3:] if tally.check(what, made, lambda answer: answer.startswith("ok {")) else None


def pair(maker, user, kind, tally):
    """Hands a list from maker to user, which reads every item."""
    what = f"{maker.name} to {user.name}, a list of {kind}"
    if reason := cannot_make(maker.name, kind):
        tally.skip(f"{what}: {reason}")
    elif handle := made_by(maker, kind, what, tally):
        is_lacking = user.name == "numo" and kind == NUMO_LACKS
        expected = refuses("shmarray::list.attach reads it") if is_lacking else says(KINDS[kind])
        tally.check(what, user.ask(f"items {handle}"), expected)


def pair_columns(maker, user, tally):
    """Hands lists from maker to user, which reads their fields, values and offsets."""
    for (kind, *field), (values, offsets) in COLUMNS.items():
        what = f"{maker.name} to {user.name}, {' '.join(field)} of a list of {kind}"
        handle = made_by(maker, kind, what, tally)
        if not handle:
            continue
        address = " ".join([handle, *field])
        if field:
            items = [record[field[0]] for record in KINDS[kind]]
            tally.check(what, user.ask(f"items {address}"), says(items))
        if user.name == "cpp":
            tally.skip(f"{what}: C++ has no array of all values")
        else:
            expected = says(array([len(values)], values))
            tally.check(f"{what}: values", user.ask(f"values {address}"), expected)
            expected = says(array([len(offsets)], offsets)) if offsets else refuses("offsets")
            tally.check(f"{what}: offsets", user.ask(f"offsets {address}"), expected)


def pair_dictionaries(maker, user, tally):
    """Hands dictionaries from maker to user, which finds every key, and reads none as a list."""
    for keys, expected in DICTIONARIES.items():
        what = f"{maker.name} to {user.name}, a dictionary of {keys}"
        if handle := made_by(maker, f"dictionary-{keys}", what, tally):
            tally.check(what, user.ask(f"find {handle}"), says(expected))
            tally.check(f"{what} as a list", user.ask(f"items {handle}"), refuses("dict"))


def pair_refusals(maker, user, tally):
    """Hands from maker to user what is no list, lists that only Python reads, and a list as an
    array and as a dictionary.
    """
    what = f"{maker.name} to {user.name}"
    made = maker.ask("create a <i4 c")
    tally.check(f"{what}, an array as a list", user.ask(f"items {made[3:]}"), refuses("list"))
    handle = made_by(maker, "strings", what, tally)
    attached = user.ask(f"attach b ro {handle}")
    if user.name == "numo":
        tally.check(f"{what}, a list as an array", attached, refuses("it is a list, and no array"))
    else:
        is_list = lambda answer: answer.startswith('ok {"descr":"list","itemsize":1} ')
        tally.check(f"{what}, a list as an array", attached, is_list)
    if user.name not in ("numo", "python"):  # Python attaches a List
        is_bytes = lambda answer: answer.startswith(f"ok {b'shmalist'.hex()}")
        tally.check(f"{what}, a list as bytes", user.ask("bytes b"), is_bytes)
    tally.check(f"{what}, a list as a dictionary", user.ask(f"find {handle}"), refuses("dict"))
    if maker.name == "python" and (handle := made_by(maker, "pickles", what, tally)):
        expected = says([0, "é", 2, 'é\0"', 4]) if user.name == "python" else refuses("pickle")
        tally.check(f"{what}, pickles", user.ask(f"items {handle}"), expected)
    user.ask("drop")
    maker.ask("drop")


def run_pair(maker, user, tally):
    for kind in KINDS:
        pair(maker, user, kind, tally)
    pair_columns(maker, user, tally)
    pair_dictionaries(maker, user, tally)
    pair_refusals(maker, user, tally)


def walk_golden(driver, directory, tally):
    """Reads every golden list and the golden dictionary through one driver."""
    index = json.loads((GOLDEN / "lists/index.json").read_text())
    expected = [
        *(("items", "list", name, says(items)) for name, items in index.items()),
        ("items", "list", "pickles", refuses("" if driver.name == "python" else "pickle")),
        ("items", "list", "dictionary", refuses("dict")),
        ("find", "dict", "dictionary", says(GOLDEN_DICTIONARY)),
        ("find", "dict", "strings", refuses("list")),
    ]
    written = []
    for number, (command, descr, name, is_right) in enumerate(expected, 60):
        data = (GOLDEN / "lists" / name).read_bytes()
        segment = make.Segment(number, {"descr": descr, "itemsize": 1}, [len(data)], data)
        written.append(directory / f"shmarray-{segment.id}")
        written[-1].write_bytes(segment.write())
        written[-1].chmod(0o600)
        answer = driver.ask(f"{command} {segment.handle()}")
        tally.check(f"{driver.name}: golden {descr} {name}", answer, is_right)
    driver.ask("drop")
    for path in written:
        path.unlink()
