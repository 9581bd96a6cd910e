"""Each place that needs a row of its own for a new dtype refuses to compile without it.

The tests build on each other: each adds the row that was asked for.
"""

import pytest
from copies import Copy


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    return Copy(tmp_path_factory.mktemp("copy"))


def refused(outcome, text):
    succeeded, said = outcome
    assert not succeeded, f"nothing refused it; {text!r} was expected"
    assert text in said, said


def check(*packages):
    return ["cargo", "check", "-q", *(word for package in packages for word in ("-p", package))]


def test_core_python_and_ruby_need_nothing_but_the_row_in_core(copy):
    copy.add_row()
    copy.run(*check("shmarray", "shmarray-python", "shmarray-ruby"))
    copy.run(*check("shmarray"), "--tests")


def test_the_c_binding_does_not_compile_without_its_constant(copy):
    refused(copy.ran(*check("shmarray-ffi")), "DType::ALL.len() == SHMA_DTYPE_COUNT")
    copy.add_constant()
    copy.run(*check("shmarray-ffi"))


def test_cxx_does_not_compile_without_its_text(copy):
    refused(copy.cxx(), "a dtype of shmarray.h has no text in element_texts")
    copy.add_text()
    succeeded, said = copy.cxx()
    assert succeeded, said


def test_the_conformance_driver_of_c_does_not_compile_without_its_row(copy):
    refused(copy.driver(), "a dtype of shmarray.h has no row in DTYPES")
    copy.add_driver_row()
    succeeded, said = copy.driver()
    assert succeeded, said
