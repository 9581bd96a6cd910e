"""A `#[test]` does not begin by returning when nobody asked for it.

A function that only another test's child process runs is no test, and would count as passed. A
test that cannot run here says so: the function that its condition calls has `skip` in its name,
and its line is counted as skipped. `#[ignore]` is allowed: what is ignored does not count as
passed.
"""

from parsing.tokens import closing, tokens
from tree import Finding


def check(tree):
    for path in tree.files(".rs"):
        text = tree.text(path)
        if "#[test]" in text:
            yield from tests(path, tokens(text))


def tests(path, found):
    texts = [token.text for token in found]
    for index in range(len(found)):
        if texts[index : index + 4] != ["#", "[", "test", "]"]:
            continue
        function = texts.index("fn", index)
        body = texts.index("{", function)
        inside = found[body + 1 : closing(found, body)]
        returns = "ignore" not in texts[index:function] and begins_by_returning(inside)
        name, line = found[function + 1]
        says = f"the test {name} returns at once when nobody asked for it"
        yield Finding(path, line, name, says) if returns else None


def begins_by_returning(body):
    """Whether the first statement but `let`s is `if … { return; }` or `let … else { return; };`."""
    start = 0
    while start < len(body):
        end, brace = statement(body, start)
        condition = [token.text for token in body[start : brace or end]]
        if condition[:1] in (["if"], ["let"]) and brace and returns(body, brace):
            return not any("skip" in word for word in condition)
        if condition[:1] != ["let"]:
            return False
        start = end + 1
    return False


def statement(body, start):
    """The index at which the statement ends, and that of its first brace."""
    index, brace = start, None
    is_let = body[start].text == "let"
    while index < len(body) and body[index].text != ";":
        if body[index].text == "{" and brace is None:
            brace = index
        if body[index].text in "([{":
            index = closing(body, index)
            if body[index].text == "}" and not is_let:
                return index, brace
        index += 1
    return index, brace


def returns(body, brace):
    return [token.text for token in body[brace + 1 : closing(body, brace)]] in (
        ["return"],
        ["return", ";"],
    )
