"""A copy of the tree, to which bfloat16 is added row by row."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The type string is not NumPy's, which has none for bfloat16: this dtype is only an example.
TEXT = "<b2"

TABLE = "core/src/value/dtype/table.rs"
FORMAT = "core/FORMAT.md"
GOLDEN = "ci/checks/golden/make.py"
CONSTANT = "ffi/src/dtype.rs"
CXX_TYPE = "bindings/cpp/include/shmarray/dtype.hpp"
DRIVERS = "ci/checks/drivers/driver"
# What a person edits. Python, Ruby and the command line need nothing.
TOUCHED = [TABLE, FORMAT, GOLDEN, CONSTANT, CXX_TYPE, f"{DRIVERS}.c", f"{DRIVERS}.cpp"]
# What programs write from these files.
HEADER = "include/shmarray.h"
WRITTEN = [HEADER, "ci/checks/golden/index.json"]

ROW = f"""\
            /// The upper half of a binary32.
            BFloat16 = 15, "bfloat16", "{TEXT}", half::bf16: Float as f32;
"""
DRIVER_ROW = f"""\
ROW(SHMA_BFLOAT16, "{TEXT}", uint16_t,
        ((const union {{ float f; uint32_t u; }}){{(float)real_part(k)}}).u >> 16)
""".replace("\n        (", " \\\n        (")
CXX = """\
#include <shmarray.hpp>

static_assert(shmarray::array<char16_t>::dtype_number == SHMA_BFLOAT16);
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
        last = "num_complex::Complex<f64>: Complex;\n"
        self.edit(TABLE, last, last + ROW)

    def add_constant(self):
        last = "pub const SHMA_COMPLEX128: shma_dtype = 14;\n"
        constant = "/// The upper half of a float.\npub const SHMA_BFLOAT16: shma_dtype = 15;\n"
        self.edit(CONSTANT, last, last + constant)
        count = "SHMA_DTYPE_COUNT: shma_dtype = "
        self.edit(CONSTANT, count + "14;", count + "15;")
        # As cbindgen writes it, which the header's own test compares.
        last = "#define SHMA_COMPLEX128 14\n"
        count = "#define SHMA_DTYPE_COUNT "
        constant = "/** The upper half of a float. */\n#define SHMA_BFLOAT16 15\n"
        self.edit(HEADER, last, last + constant)
        self.edit(HEADER, count + "14", count + "15")

    def add_type(self):
        # Any type of two bytes that no other dtype has.
        self.edit(CXX_TYPE, "std::complex<double>>;", "std::complex<double>, char16_t>;")

    def add_to_format(self):
        self.edit(FORMAT, " <c8 <c16\n", f" <c8 <c16 {TEXT}\n")

    def add_golden_segment(self):
        last = '        "cells": Cells('
        data = 'b"\\x80\\x3f\\x00\\xc0"'
        segment = f"""        "bfloat16": Segment(20, "{TEXT}", [2], {data}),\n"""
        self.edit(GOLDEN, last, segment + last)
        self.run(sys.executable, GOLDEN)

    def add_driver_rows(self):
        last = "real_part(k) + imaginary_part(k) * I)\n\n"
        self.edit(f"{DRIVERS}.c", last, f"{last[:-2]} \\\n    {DRIVER_ROW}\n")
        self.edit(f"{DRIVERS}.cpp", '"<c16"};', f'"<c16", "{TEXT}"}};')

    def driver(self, ending):
        """Whether the conformance driver of C or C++ compiles, and what the compiler said."""
        compiler = {"c": ["gcc", "-std=c11"], "cpp": ["g++", "-std=c++17"]}[ending]
        flags = ["-fsyntax-only", "-Werror", "-Iinclude", "-Ibindings/cpp/include"]
        return self.ran(*compiler, *flags, f"{DRIVERS}.{ending}")

    def core_tests(self):
        """The unit tests about the table: whether they succeeded, and what they said."""
        return self.ran("cargo", "test", "-q", "-p", "shmarray", "--lib", "dtype::")

    def cxx(self):
        (self.root / "new_dtype.cpp").write_text(CXX)
        flags = ["-std=c++17", "-fsyntax-only", "-Iinclude", "-Ibindings/cpp/include"]
        said = self.ran("g++", *flags, "new_dtype.cpp")
        (self.root / "new_dtype.cpp").unlink()
        return said
