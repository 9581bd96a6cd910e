"""A copy of the tree, to which a float of one byte is added row by row."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXT = "float8_e2m5"

TABLE = "core/src/value/dtype/table.rs"
FORMAT = "core/FORMAT.md"
GOLDEN = "ci/checks/golden/make.py"
CONSTANT = "ffi/src/dtype.rs"
CXX_TEXT = "bindings/cpp/include/shmarray/dtype.hpp"
DRIVERS = "ci/checks/drivers/driver"
# What a person edits. Python, Ruby and the command line need nothing.
TOUCHED = [TABLE, FORMAT, GOLDEN, CONSTANT, CXX_TEXT, f"{DRIVERS}.c"]
# What programs write from these files.
HEADER = "include/shmarray.h"
WRITTEN = [HEADER, "ci/checks/golden/index.json"]

ROW = f"""\
            /// Sign, 2 bits of exponent, 5 of mantissa.
            Float8E2M5 = 36, "{TEXT}", "{TEXT}",
                crate::value::small::SmallFloat<2, 5, 1, 0>: Float as byte;
"""
DRIVER_ROW = f'ROW(SHMA_FLOAT8_E2M5, "{TEXT}", uint8_t, k % 2 ? 0x40 : 0x20)\n'
CXX = f"""\
#include <shmarray.hpp>

struct fp8 {{
    std::uint8_t bits;
}};
template <>
struct shmarray::struct_traits<fp8> {{
    static constexpr const char *dtype = "{TEXT}";
}};
static_assert(shmarray::array<fp8>::dtype_number == SHMA_FLOAT8_E2M5);
"""


class Copy:
    def __init__(self, root):
        self.root = root
        tracked = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        for path in filter(None, tracked.stdout.split("\0")):
            if (ROOT / path).is_file():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_bytes((ROOT / path).read_bytes())
        self.run("git", "init", "-q")
        self.run("git", "add", "-A")
        identity = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
        self.run("git", *identity, "commit", "-q", "-m", "before")

    def run(self, *command):
        """Returns what the command printed. It must succeed."""
        succeeded, said = self.ran(*command)
        assert succeeded, said
        return said

    def ran(self, *command):
        """Returns whether the command succeeded, and what it printed."""
        # `cargo check` builds no program of the checkout, so it can share the checkout's target
        # folder, with the dependencies that are checked already. Tests have a folder of their own.
        target = ROOT / "target" / ("new_dtype" if "test" in command else "")
        done = subprocess.run(
            command,
            cwd=self.root,
            env=os.environ | {"CARGO_TARGET_DIR": str(target), "CARGO_TERM_COLOR": "never"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return done.returncode == 0, done.stdout

    def edit(self, path, old, new):
        text = (self.root / path).read_text()
        assert text.count(old) == 1, f"{path} has {text.count(old)} times {old!r}"
        (self.root / path).write_text(text.replace(old, new))

    def add_row(self):
        last = "crate::value::small::Float8E5M3FNU: Float as byte;\n"
        self.edit(TABLE, last, last + ROW)

    def add_constant(self):
        last = "pub const SHMA_FLOAT8_E5M3FNU: shma_dtype = 35;\n"
        doc = "Sign, 2 bits of exponent, 5 of mantissa."
        constant = f"/// {doc}\npub const SHMA_FLOAT8_E2M5: shma_dtype = 36;\n"
        self.edit(CONSTANT, last, last + constant)
        count = "SHMA_DTYPE_COUNT: shma_dtype = "
        self.edit(CONSTANT, count + "35;", count + "36;")
        # As cbindgen writes it, which the header's own test compares.
        last = "#define SHMA_FLOAT8_E5M3FNU 35\n"
        count = "#define SHMA_DTYPE_COUNT "
        constant = f"/** {doc} */\n#define SHMA_FLOAT8_E2M5 36\n"
        self.edit(HEADER, last, last + constant)
        self.edit(HEADER, count + "35", count + "36")

    def add_text(self):
        self.edit(CXX_TEXT, '"float8_e5m3fnu"};', f'"float8_e5m3fnu", "{TEXT}"}};')

    def add_to_format(self):
        self.edit(FORMAT, " uint4 float8_e5m3fnu\n", f" uint4 float8_e5m3fnu {TEXT}\n")

    def add_golden_segment(self):
        last = '"float8_e5m3fnu",\n'
        self.edit(GOLDEN, last, f'{last}    "{TEXT}",\n')
        self.run(sys.executable, GOLDEN)

    def add_driver_row(self):
        last = "k % 2 ? 0x80 : 0x78)\n"
        self.edit(f"{DRIVERS}.c", last, f"{last[:-1]} \\\n    {DRIVER_ROW}")

    def driver(self):
        """Whether the conformance driver of C compiles, and what the compiler said."""
        flags = ["-std=c11", "-fsyntax-only", "-Werror", "-Iinclude"]
        return self.ran("gcc", *flags, f"{DRIVERS}.c")

    def core_tests(self):
        """The unit tests about the table: whether they succeeded, and what they said."""
        return self.ran("cargo", "test", "-q", "-p", "shmarray", "--lib", "dtype::")

    def cxx(self):
        (self.root / "new_dtype.cpp").write_text(CXX)
        flags = ["-std=c++17", "-fsyntax-only", "-Iinclude", "-Ibindings/cpp/include"]
        said = self.ran("g++", *flags, "new_dtype.cpp")
        (self.root / "new_dtype.cpp").unlink()
        return said
