"""The rules about modules refuse circles and uses of later modules, in every form."""

import pytest
from parsing.tokens import tokens
from parsing.use_trees import parse_use
from planting import PACKAGE, SHAPE, assert_has, refused, refused_alone

# Rust

USES = [
    "use crate::{array};",
    "use crate::{error::Error, array::{Array, Options as O}};",
    "use crate::array as later;",
    "use super::array::Array;",
    "use self::super::array::*;",
    "use crate::Array;",  # which lib.rs re-exports
    "use crate::{self as root}; fn f() { root::array::f(); }",
    "use crate as root; use root::array::f;",
    "fn f() { crate::array::Array::create() }",
    "fn f(a: &crate::array::Array) {}",
    "fn f() -> Vec<super::array::Array> { todo!() }",
    "pub(crate) use crate::array::Array;",
    "use crate as root; pub use root::array::Array;",
    "fn f() { for _ in 0..crate::array::N {} }",
    "fn f() { X { a: 1, ..crate::array::X::default() } }",
    "struct S { #[cfg(test)] x: u8, y: crate::array::Array }",
    "enum S { #[cfg(test)] A, B } fn f() { crate::array::f() }",
    "fn f() { match x { #[cfg(test)] 1 => 2, _ => 3 } } fn g() { crate::array::f() }",
    "#[derive(crate::array::Planted)] struct X;",
    "macro_rules! m { () => { crate::array::Array } }",
    "#[cfg(not(any(loom, test)))] use crate::array::Array;",
]


@pytest.mark.parametrize("text", USES)
def test_a_module_that_uses_a_later_one_is_refused(copy, plant, text):
    line = plant(SHAPE, text, at=30)
    says = "crate::shape uses crate::array, which core/src/lib.rs lists after shape"
    assert_has(refused("rust_modules", copy), f"{SHAPE}:{line}", says)


HIDDEN = {
    "use super::*;": "uses everything in super",
    "use crate::*;": "uses everything in crate",
    "use crate::error::*;": "uses everything in crate::error",
    'include!("array/create.rs");': "by include!",
    "extern crate self as root;": "another name for the crate",
    "fn f() { mod x { use super::super::array::Array; } }": "a module inside of a function",
    "cfg_if! { if #[cfg(x)] { mod planted; } }": "a module inside of a function",
    "macro_rules! m { ($x:ident) => { crate::$x::Array } }": "a path that a macro completes",
}


@pytest.mark.parametrize("text", HIDDEN)
def test_what_would_hide_a_use_is_refused(copy, plant, text):
    line = plant(SHAPE, text, at=30)
    assert_has(refused("rust_modules", copy), f"{SHAPE}:{line}", HIDDEN[text])


def test_a_file_without_a_mod_line_is_refused(copy, plant):
    plant("core/src/orphan.rs", "//! A file.")
    assert_has(refused("rust_modules", copy), "core/src/orphan.rs:1", "no `mod` names this file")


def test_every_library_of_rust_is_read(copy, plant):
    plant("bindings/node/src/lib.rs", "mod a;\nmod b;")
    plant("bindings/node/src/a.rs", "use crate::b::x;")
    plant("bindings/node/src/b.rs", "use crate::a::y;")
    said = refused("rust_modules", copy)
    assert_has(said, "bindings/node/src/a.rs:1", "crate::a uses crate::b")


@pytest.mark.parametrize(
    "text",
    [
        "// use crate::{array};",
        "/* use crate::array; /* nested */ use crate::array; */",
        'const TEXT: &str = "use crate::array;";',
        'const TEXT: &str = r#"crate::array::"x""#;',
        "#[cfg(test)]\nmod more_tests { use crate::array::Array; }",
        "#[cfg(test)]\nuse crate::array::Array;",
        "#[cfg(all(test, unix))]\nuse crate::array::Array;",
        "#[cfg(all(test, not(loom)))]\nmod more_tests { use super::*; use crate::array::Array; }",
        "#[cfg(test)]\nfn f<A, B>(a: A) { crate::array::f() }",
        "use std::collections::*;",
        "use crate::error::Error as Earlier;",
        "use std::array::from_fn;",
    ],
)
def test_names_that_only_look_like_a_later_module_are_allowed(copy, plant, text):
    plant(SHAPE, text, at=30)
    assert refused("rust_modules", copy) == []


FOLDERS = {
    "use super::later::thing;": "uses crate::planted::later, which",
    "use super::passed_on;": "uses crate::planted::later, which",
    "use crate::planted::{self as p}; fn f() { p::later::thing() }": "uses crate::planted::later",
    "use super::own;": "uses crate::planted, which uses it in turn: a circle",
}


@pytest.mark.parametrize("text", FOLDERS)
def test_a_circle_in_a_folder_of_core_is_refused(copy, plant, text):
    plant("core/src/lib.rs", "mod planted;")
    lines = ("mod earlier;", "mod later;", "pub use later::thing as passed_on;")
    plant("core/src/planted/mod.rs", "\n".join((*lines, "pub fn own() { earlier::f(); }")))
    plant("core/src/planted/later.rs", "pub fn thing() {}")
    plant("core/src/planted/earlier.rs", text)
    says = f"crate::planted::earlier {FOLDERS[text]}"
    assert_has(refused("rust_modules", copy), "core/src/planted/earlier.rs:1", says)


def test_a_circle_in_another_crate_is_refused(copy, plant):
    line = plant("bindings/cli/src/process.rs", "use crate::list::print;", at=3)
    says = "crate::process uses crate::list, which bindings/cli/src/lib.rs lists after process"
    assert_has(refused("rust_modules", copy), f"bindings/cli/src/process.rs:{line}", says)


def test_a_folder_in_order_is_allowed(copy, plant):
    plant("core/src/lib.rs", "mod planted;")
    plant("core/src/planted/mod.rs", "mod earlier;\nmod later;\npub use later::thing;\nfn own() {}")
    plant("core/src/planted/earlier.rs", "pub fn thing() { super::own() }")
    plant("core/src/planted/later.rs", "pub use super::earlier::thing;\nuse crate::array::Array;")
    assert refused("rust_modules", copy) == []


def test_a_module_whose_file_is_not_found_is_refused(copy, plant):
    line = plant(SHAPE, '#[path = "elsewhere.rs"]\nmod moved;', at=30) + 1
    said = refused("rust_modules", copy)
    assert_has(said, f"{SHAPE}:{line}", "crate::shape::moved has no file")


def test_use_trees_are_read_in_every_form():
    text = "use a::{self, b::{c as d, *}, e}; use ::f::g as _;"
    found, uses = tokens(text), []
    for index, token in enumerate(found):
        if token.text == "use":
            uses += [(use.path, use.name) for use in parse_use(found, index, False)[0]]
    assert uses == [
        (("a",), "a"),
        (("a", "b", "c"), "d"),
        (("a", "b", "*"), "*"),
        (("a", "e"), "e"),
        (("::", "f", "g"), "_"),
    ]


# Python


@pytest.mark.parametrize(
    "texts",
    [
        ("from shmarray import _planted_two", "from shmarray import _planted_one"),
        ("from . import _planted_two", "def f():\n    import shmarray._planted_one"),
        ("from ._planted_two import name", "from shmarray._planted_one import name"),
    ],
)
def test_a_circle_of_python_modules_is_refused(copy, plant, texts):
    for name, text in zip(("one", "two"), texts, strict=True):
        plant(f"{PACKAGE}/_planted_{name}.py", text)
    said = refused("python_modules", copy)
    assert_has(said, f"{PACKAGE}/_planted_one.py:1", "leads back to it: a circle")


def test_an_import_only_for_types_is_no_circle(copy, plant):
    plant(f"{PACKAGE}/_codec/_planted_one.py", "from . import _planted_two")
    only = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from . import _planted_one"
    plant(f"{PACKAGE}/_codec/_planted_two.py", only)
    assert refused("python_modules", copy) == []


@pytest.mark.parametrize(
    "text",
    [
        "from shmarray.joblib import register",
        "from ..joblib import register",
        "if not TYPE_CHECKING:\n    from ..joblib import register",
        "if TYPE_CHECKING or True:\n    from ..joblib import register",
        "if TYPE_CHECKING:\n    pass\nelse:\n    from ..joblib import register",
        "import_module('shmarray.joblib')",
        "importlib.import_module('..joblib', __package__)",
        "__import__('shmarray.joblib')",
        "sys.modules['shmarray.joblib']",
        "sys.modules.get('shmarray.joblib')",
        "import shmarray.joblib.nothing",
    ],
)
def test_a_lower_folder_of_python_imports_no_upper_one(copy, plant, text):
    plant(f"{PACKAGE}/_codec/planted.py", text)
    said = [line for line in refused("python_modules", copy) if "planted imports" in line]
    assert "shmarray._codec.planted imports shmarray.joblib" in said[0]


@pytest.mark.parametrize(
    ("path", "text", "says"),
    [
        ("_dumps.py", "from shmarray.joblib import register", "joblib stands above _dumps"),
        ("_share.py", "from ._workers import _task", "_workers stands above _share"),
        ("_workers/_task.py", "from .._codec import _pickler", "_workers does not use _codec"),
        ("_planted/__init__.py", "x = 1", "shmarray._planted has no layer"),
    ],
)
def test_every_module_of_the_top_level_has_its_layer(copy, plant, path, text, says):
    plant(f"{PACKAGE}/{path}", text)
    assert [line for line in refused("python_modules", copy) if says in line]


def test_a_layer_without_a_module_is_refused(tmp_path):
    said = refused_alone("python_modules", tmp_path, f"{PACKAGE}/_core.py", "from . import _core")
    assert [line for line in said if "LAYERS names joblib" in line]


def test_an_import_of_a_folders_module_runs_the_folder(copy, plant):
    plant(f"{PACKAGE}/_ipc/__init__.py", "from .._codec import planted")
    plant(f"{PACKAGE}/_codec/planted.py", "from .._ipc._fds import Fd")
    said = refused("python_modules", copy)
    assert [line for line in said if "shmarray._codec.planted imports shmarray._ipc, " in line]


@pytest.mark.parametrize("folder", ["ci/suites", "bindings/python/tests"])
@pytest.mark.parametrize("text", ["import a_one", "def f():\n    from a_one import x"])
def test_a_circle_of_scripts_is_refused(tmp_path, folder, text):
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / "a_one.py").write_text("import a_two")
    said = refused_alone("python_scripts", tmp_path, f"{folder}/a_two.py", text)
    assert_has(said, f"{folder}/a_one.py:1", "a circle")
