"""The rule about tests refuses those that begin by returning."""

import pytest
from planting import assert_has, refused_alone


@pytest.mark.parametrize(
    "body",
    [
        'if std::env::var("PEER").is_err() { return; }',
        'let Ok(text) = std::env::var("PEER") else { return };',
        'let name = "peer"; if !is_peer(name) { return; }',
        'if !is_peer() { eprintln!("no"); return; }',
        "if !is_peer() { return Ok(()); }",
        'let Ok(t) = var("PEER") else { println!("no"); return };',
        'let t = match var("PEER") { Ok(t) => t, Err(_) => return };',
        "support::watchdog(); if !is_peer() { return; }",
        "assert!(true); if !is_peer() { return; }",
        "if is_root() { work() } else { return; }",
        "{ if !is_peer() { return; } }",
        "return;",
    ],
)
def test_a_test_that_returns_at_once_is_refused(tmp_path, body):
    text = f"//! Tests.\n#[test]\nfn helper() {{\n    {body}\n    work();\n}}\n"
    said = refused_alone("returning_tests", tmp_path, "core/tests/a.rs", text)
    assert_has(said, "core/tests/a.rs:3", "the test helper returns at once")


@pytest.mark.parametrize(
    ("attribute", "body"),
    [
        ("", "if !is_root_or_skips() { return; }"),
        ("", "for x in y { return; }"),
        ("", "run(|| { if done() { return; } });"),
        ("", "if x { assert_eq!(y, 1); return; }"),
        ('#[ignore = "another test starts it"]', "if !is_peer() { return; }"),
    ],
)
def test_a_test_that_says_that_it_skips_or_returns_later_is_one(tmp_path, attribute, body):
    text = f"#[test]\n{attribute}\nfn works() {{ {body} more(); }}\n"
    assert refused_alone("returning_tests", tmp_path, "core/tests/a.rs", text) == []


@pytest.mark.parametrize(
    "attribute",
    [
        "#[tokio::test]",
        "#[rstest]",
        "#[cfg_attr(unix, test)]",
        "#[test]\n#[cfg_attr(unix, ignore)]",
    ],
)
def test_a_test_by_any_attribute_is_one(tmp_path, attribute):
    text = f"{attribute}\nasync fn helper() {{ if !is_peer() {{ return; }} work(); }}\n"
    said = refused_alone("returning_tests", tmp_path, "core/tests/a.rs", text)
    assert len([line for line in said if "the test helper returns at once" in line]) == 1


@pytest.mark.parametrize(
    "body",
    [
        'if "PEER" not in os.environ: return',
        'print("no")\n    if not peer():\n        print("no")\n        return',
        "try:\n        peer()\n    except OSError:\n        return",
    ],
)
def test_a_test_of_python_that_returns_at_once_is_refused(tmp_path, body):
    text = f"import os\ndef test_helper():\n    {body}\n    work()\n"
    said = refused_alone("returning_tests", tmp_path, "tests/test_a.py", text)
    assert_has(said, "tests/test_a.py:2", "the test test_helper returns at once")


@pytest.mark.parametrize(
    "body",
    [
        "for x in y:\n        if x:\n            return",
        "def inner():\n        return 1",
        "if not peer():\n        pytest.skip('no peer')\n        return",
    ],
)
def test_a_test_of_python_that_returns_later_is_allowed(tmp_path, body):
    text = f"def test_works():\n    {body}\n    work()\n"
    assert refused_alone("returning_tests", tmp_path, "tests/test_a.py", text) == []


@pytest.mark.parametrize("line", ["return unless ENV['PEER']", "peer or return"])
def test_a_test_of_ruby_that_returns_at_once_is_refused(tmp_path, line):
    other = "  def other\n    return\n  end\n"
    text = f"class X\n  def test_helper\n    {line}\n    work\n  end\n{other}end\n"
    said = refused_alone("returning_tests", tmp_path, "test/a_test.rb", text)
    assert_has(said, "test/a_test.rb:2", "the test test_helper returns at once")
