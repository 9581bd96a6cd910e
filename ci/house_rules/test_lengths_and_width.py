"""The rules about lengths and width refuse long functions, long files and wide lines."""

import pytest
from parsing.functions import functions
from planting import assert_has, refused_alone

LONG_LINE = "x" * 120

FUNCTIONS = {
    "a.py": ("def long():", "    x = 1", ""),
    "b.py": ("class C:\n    async def long(self):", "        x = 1", ""),
    "a.rs": ("pub(crate) const unsafe fn long() {", "    f(0);", "}"),
    "a.rb": ("  def long(a)", "    a + 1", "  end"),
    "a.c": ("static int long(int a) {", "    a += '{';", "}"),
    "a.hpp": ("class C {\n  auto long(int a) const -> int {", '    f("}");', "  }\n};"),
    "a.sh": ("# shellcheck shell=bash\nlong() {", "    echo 1", "}"),
    "b.hpp": ("template <class T = int>\nint long(T a) {", "  f();", "}"),
    "c.hpp": ("class C {\n public:\n  auto long = [](int a) {", "  f();", "  };\n};"),
    "b.rs": ("static long: fn() = || {", "    f(0);", "};"),
    "c.rs": ("fn long() -> X<{ 3 }> {", "    f(0);", "}"),
    "b.rb": ("  def long(a) # until the end", "    a + 1", "  end # of long"),
    "c.rb": ("  define_method(:long) do |a|", "    a + 1", "  end"),
    "d.rb": ("  long = lambda do |a|", "    a + 1", "  end"),
    "Rakefile": ("def long", "  f", "end"),
    "b.sh": ("function long() { # it", "    echo 1", "} >&2"),
    "ci/a": ("#!/bin/sh\nlong()\n{", "    echo 1", "}"),
    "ci/b": ("#!/usr/bin/env python3\ndef long():", "    f()", ""),
    "ci/c": ("#!/usr/bin/env ruby\ndef long", "    f", "end"),
    "a.cc": ("int long(void) {", "    f();", "}"),
}


@pytest.mark.parametrize("file", FUNCTIONS)
def test_a_function_of_200_lines_is_refused(tmp_path, file):
    first, line, last = FUNCTIONS[file]
    said = refused_alone("lengths", tmp_path, file, "\n".join([first, *[line] * 199, last]))
    assert any(line.startswith(f"{file}:") and "function long has 20" in line for line in said), (
        said
    )


def test_functions_of_cpp_are_found_in_namespaces_and_classes():
    body = "  void g() {\n    if (a) { b(); }\n  }\n"
    text = f"namespace a {{\nclass C : public B<int> {{\n{body}}};\n}}\nint f() {{ return 1; }}\n"
    assert [*functions("x.hpp", text)] == [("g", 3, 3), ("f", 8, 1)]


def test_operators_of_cpp_are_measured(tmp_path):
    text = "inline bool operator==(const X &a) {\n" + "  f();\n" * 60 + "}\n"
    said = refused_alone("lengths", tmp_path, "a.hpp", text)
    assert_has(said, "a.hpp:1", "the function operator= has 62 lines")


@pytest.mark.parametrize("path", ["a.pyi", "a.rbs", "a.cc", "ci/x"])
def test_a_long_file_of_any_code_is_refused(tmp_path, path):
    said = refused_alone("lengths", tmp_path, path, "#!/bin/sh\n" + "x\n" * 500)
    assert_has(said, f"{path}:501", "has 501 lines")


def test_code_after_the_unit_tests_counts(tmp_path):
    text = "#[cfg(test)]\nmod tests {\n    fn f() {}\n}\nfn g() {}\n" + "// x\n" * 500
    said = refused_alone("lengths", tmp_path, "a.rs", text)
    assert_has(said, "a.rs:502", "the file has 502 lines")


def test_a_file_of_501_lines_is_refused(tmp_path):
    said = refused_alone("lengths", tmp_path, "a.rb", "p 1\n" * 501)
    assert_has(said, "a.rb:501", "has 501 lines")


@pytest.mark.parametrize(
    ("path", "line", "columns"),
    [
        ("a.rs", "\t" * 10 + "x" * 30, 110),
        ("README.md", "\u6f22" * 51, 102),
        ("a.py", "y" * 60 + "\x0c" + "y" * 60, 121),
        ("a.rs", f"handlers[index]({LONG_LINE})", 137),
        ("README.md", f"|x| is the norm {LONG_LINE}", 136),
        ("README.md", f"```sh\n| {LONG_LINE} |\n```", 124),
        ("ci/conformance/golden/make.py", LONG_LINE, 120),
        ("package.json", LONG_LINE, 120),
    ],
)
def test_a_wide_line_is_refused_in_every_form(tmp_path, path, line, columns):
    said = refused_alone("width", tmp_path, path, f"{line}\n")
    assert any(line.startswith(f"{path}:") and f"has {columns} columns" in line for line in said)


def test_combining_characters_have_no_columns(tmp_path):
    assert refused_alone("width", tmp_path, "a.md", "e\u0301" * 80 + "\n") == []


@pytest.mark.parametrize("path", ["a.rs", "ci/env", "README.md", "a.toml", "a.rbs", ".ci/run"])
def test_a_line_of_120_columns_is_refused(tmp_path, path):
    said = refused_alone("width", tmp_path, path, f"short\n{LONG_LINE}\n")
    assert_has(said, f"{path}:2", "has 120 columns")


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("README.md", f"| {LONG_LINE} | a cell |"),
        ("README.md", f"[a link](https://example.org/{LONG_LINE}) and [another]({LONG_LINE})"),
        ("a.rs", f"//! | {LONG_LINE} |"),
        ("include/shmarray.h", LONG_LINE),
        ("Cargo.lock", LONG_LINE),
    ],
)
def test_tables_addresses_and_generated_files_may_be_wide(tmp_path, path, line):
    (tmp_path / "a.py").write_text("x = 1\n")
    assert refused_alone("width", tmp_path, path, f"{line}\n") == []
