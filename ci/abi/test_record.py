"""The recorded ABI refuses each kind of change, and grows by additions alone.

Each test changes a copy of the committed header or list of symbols, or a library that is linked for
it, and asks ffi/abi/record.py.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ABI = ROOT / "ffi/abi"
sys.path.append(str(ABI))
import version_script  # noqa: E402, its folder is no package

HEADER = (ROOT / "include/shmarray.h").read_text()
MAP = (ROOT / "include/shmarray.map").read_text()
SONAME = re.search(r'^SONAME\("(.*)"\);$', (ABI / "recorded.c").read_text(), re.M)[1]
INSTALLED = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "ci/prefix"


class Copy:
    """A folder with a copy of the record, the header and the list of symbols."""

    def __init__(self, folder):
        self.folder = folder
        self.header = folder / "shmarray.h"
        self.map = folder / "shmarray.map"
        self.changelog = folder / "CHANGELOG.md"
        self.header.write_text(HEADER)
        self.map.write_text(MAP)
        self.changelog.write_text("# Changelog\n\n## Unreleased\n")
        shutil.copy(ABI / "recorded.c", folder)

    def change(self, old, new, path=None):
        """Replaces what the pattern finds, once."""
        path = path or self.header
        text, count = re.subn(old, new, path.read_text(), count=1, flags=re.M)
        assert count == 1, f"{path.name} has no {old}"
        path.write_text(text)

    def record(self, *arguments):
        """The exit code of record.py and what it prints."""
        named = [f"--{name}={getattr(self, name)}" for name in ("header", "map", "changelog")]
        command = [sys.executable, ABI / "record.py", *named, f"--record={self.folder}"]
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
        assert not done.stderr, done.stderr
        return done.returncode, done.stdout

    def link(self, soname=""):
        """A library with the symbols of the list, where a version script may be changed."""
        symbols = re.findall(r"^ +(shma_\w+);", MAP, re.M)
        source = self.folder / "all.c"
        source.write_text("".join(f"void {name}(void) {{}}\n" for name in symbols))
        library = self.folder / "libshmarray.so"
        script = f"-Wl,--version-script={self.map}"
        name = f"-Wl,-soname,{soname or SONAME}"
        subprocess.run(["cc", "-shared", "-fPIC", source, script, name, "-o", library], check=True)
        return f"--library={library}"


@pytest.fixture
def copy(tmp_path):
    return Copy(tmp_path)


def breaks(copy, change, *arguments):
    """The change is refused by the check, and not recorded either."""
    code, said = copy.record("--check", *arguments)
    assert code == 1 and re.search(f"breaks the ABI: {change}", said), said
    before = (copy.folder / "recorded.c").read_text()
    code, said = copy.record(*arguments)
    assert code == 1 and "not recorded, since it breaks the ABI" in said, said
    assert (copy.folder / "recorded.c").read_text() == before


def compiles(copy):
    command = ["cc", "-std=c11", "-fsyntax-only", f"-I{copy.folder}", copy.folder / "recorded.c"]
    return subprocess.run(command, capture_output=True, text=True, check=False).returncode == 0


def test_the_committed_abi_is_the_recorded_one(copy):
    code, said = copy.record("--check")
    assert code == 0 and re.search(r"recorded one: \d\d+ facts", said), said


def test_the_installed_library_has_the_recorded_symbols(copy):
    code, said = copy.record("--check", f"--library={INSTALLED / 'lib/libshmarray.so'}")
    assert code == 0, said


CHANGES = {
    "a parameter narrowed to 32 bits": (
        r"(int32_t|shma_status) shma_segment_unlink\(const char \*name, ",
        r"\1 shma_segment_unlink(const char *name, int32_t wide, ",
        "changed: FUNCTION shma_segment_unlink",
    ),
    "a narrowed number": (
        r"^( +)int64_t timeout_ns,",
        r"\1int32_t timeout_ns,",
        "changed: FUNCTION shma_pipe_send",
    ),
    "another result": (
        r"size_t (shma_array_ndim)",
        r"uint32_t \1",
        "changed: FUNCTION shma_array_ndim",
    ),
    "a pointer to const": (
        r"void shma_array_close\(shma_array",
        "void shma_array_close(const shma_array",
        "changed: FUNCTION shma_array_close",
    ),
    "a removed function": (
        r"^[^*\n]*uint64_t shma_copied_bytes\(void\);",
        "",
        "removed: FUNCTION shma_copied_bytes",
    ),
    "a changed constant": (
        r"#define SHMA_CLOSED 2",
        "#define SHMA_CLOSED 3",
        "changed: CONSTANT SHMA_CLOSED was 2 and is 3",
    ),
    "a removed constant": (r"^#define SHMA_READ_ONLY 1", "", "removed: CONSTANT SHMA_READ_ONLY"),
    "another type behind a name": (
        r"typedef int32_t shma_dtype",
        "typedef uint32_t shma_dtype",
        "changed: TYPEDEF shma_dtype",
    ),
    "a member of another type": (
        r"^ +uint32_t mode;",
        "  int32_t mode;",
        "changed: MEMBER shma_options mode",
    ),
    "a moved member": (
        r"^ +uint32_t mode;",
        "  uint64_t mode;",
        "changed: MEMBER shma_options order",
    ),
    "a removed member": (r"^ +uint64_t tickets;", "", "removed: MEMBER shma_segment_info tickets"),
    "a longer struct of the caller's": (
        r"^} shma_error;",
        "  int32_t more;\n} shma_error;",
        "(added: MEMBER shma_error more|changed: STRUCT shma_error)",
    ),
    "a member in the padding of a struct that grows": (
        r"^ +uint32_t creator_pid;",
        "  uint32_t creator_pid;\n  uint32_t more;",
        "added: MEMBER shma_segment_info more",
    ),
    "a struct that is no longer opaque": (
        r"^typedef struct shma_pipe shma_pipe;",
        "typedef int32_t shma_pipe;",
        "removed: OPAQUE shma_pipe",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_the_header_is_refused(copy, name):
    old, new, change = CHANGES[name]
    copy.change(old, new)
    breaks(copy, change)
    assert name.endswith("in the padding of a struct that grows") or not compiles(copy)


def test_a_removed_symbol_is_refused_and_put_back(copy):
    copy.change(r"^ +shma_sweep;\n", "", copy.map)
    code, said = copy.record("--check")
    assert code == 1 and "breaks the ABI: removed: SYMBOL shma_sweep" in said, said
    assert copy.record()[0] == 0 and copy.record("--check")[0] == 0


def test_a_function_of_a_later_version_has_a_node_of_its_own():
    text = version_script.with_functions(MAP, {"shma_version", "shma_more"}, "SHMARRAY_9.9")
    assert text == MAP + "SHMARRAY_9.9 {\n  global:\n    shma_more;\n} SHMARRAY_0.1;\n"
    added = {("SYMBOL", "shma_more"): ('"SHMARRAY_9.9"',)}
    before = version_script.of_map(MAP, SONAME)
    assert version_script.of_map(text, SONAME) == before | added


def test_a_symbol_moved_to_another_version_is_refused(copy):
    copy.change(r"^ +shma_sweep;\n", "", copy.map)
    copy.map.write_text(copy.map.read_text() + "SHMARRAY_0.2 {\n    shma_sweep;\n} SHMARRAY_0.1;\n")
    breaks(copy, 'changed: SYMBOL shma_sweep was "SHMARRAY_0.1" and is "SHMARRAY_0.2"')


def test_a_library_without_a_symbol_is_refused(copy):
    copy.change(r"^ +shma_sweep;\n", "", copy.map)
    library = copy.link()
    copy.map.write_text(MAP)
    breaks(copy, "removed: SYMBOL shma_sweep", library)


def test_a_library_with_a_moved_symbol_is_refused(copy):
    copy.change(r"SHMARRAY_0\.1", "SHMARRAY_0.2", copy.map)
    library = copy.link()
    copy.map.write_text(MAP)
    breaks(copy, 'changed: SYMBOL shma_sweep was "SHMARRAY_0.1" and is "SHMARRAY_0.2"', library)


def test_a_library_of_another_soname_is_refused(copy):
    change = r'changed: SONAME was "libshmarray.so.\d+" and is "other"'
    breaks(copy, change, copy.link("other"))


def test_an_addition_is_refused_until_it_is_recorded(copy):
    added = "\\g<0>\nvoid shma_more(int64_t);\n#define SHMA_MORE 5"
    copy.change(r"^.*shma_version\(void\);", added)
    code, said = copy.record("--check")
    assert code == 1 and "not recorded: added: FUNCTION shma_more void, int64_t" in said
    assert "breaks" not in said.partition("An addition")[0]
    assert copy.record()[0] == 0
    assert copy.record("--check")[0] == 0
    assert len(re.findall("^    shma_more;$", copy.map.read_text(), re.M)) == 1
    copy.change(r"shma_more\(int64_t\)", "shma_more(int32_t)")
    breaks(copy, "changed: FUNCTION shma_more")


@pytest.mark.parametrize("struct", ["shma_options", "shma_segment_info"])
def test_a_struct_that_may_grow_grows_at_its_end(copy, struct):
    copy.change(rf"^}} {struct};", f"  uint64_t more;\n}} {struct};")
    if struct == "shma_options":
        copy.change(r"(SHMA_OPTIONS_INIT \{.*)\}", r"\1, 0}")
    code, said = copy.record("--check")
    assert code == 1 and f"not recorded: changed: STRUCT {struct}" in said, said
    assert copy.record()[0] == 0 and copy.record("--check")[0] == 0 and compiles(copy)


def test_the_number_of_dtypes_may_grow(copy):
    copy.change(r"SHMA_DTYPE_COUNT \d+", "SHMA_DTYPE_COUNT 99")
    assert copy.record("--check")[0] == 1
    assert copy.record()[0] == 0
    copy.change(r"SHMA_DTYPE_COUNT 99", "SHMA_DTYPE_COUNT 13")
    breaks(copy, "changed: CONSTANT SHMA_DTYPE_COUNT")


def test_a_break_is_recorded_before_the_first_release_only(copy):
    copy.change(r"#define SHMA_CLOSED 2", "#define SHMA_CLOSED 3")
    number = SONAME.rpartition(".")[2]
    copy.changelog.write_text(f"# Changelog\n\n## {number}.1.0\n")
    code, said = copy.record("--break")
    assert code == 1 and "has been released" in said
    copy.changelog.write_text("# Changelog\n\n## Unreleased\n")
    assert copy.record("--break")[0] == 0
    assert copy.record("--check")[0] == 0


def test_another_name_for_the_same_type_is_no_change(copy):
    copy.change(r"^typedef int32_t shma_dtype;", "\\g<0>\ntypedef size_t shma_more;")
    copy.change(r"size_t (shma_array_ndim)", r"shma_more \1")
    code, said = copy.record("--check")
    assert code == 1 and "not recorded: added: TYPEDEF shma_more" in said
    assert "shma_array_ndim" not in said
    assert copy.record()[0] == 0
