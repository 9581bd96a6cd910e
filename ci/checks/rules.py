"""Checks the house rules that no other tool checks.

    ci/tidy                       every rule
    ci/tidy words hosts           these rules
    ci/tidy --list                what the rules are
    ci/tidy --root FOLDER         another copy of the repository

Each rule is a function of RULES whose docstring is the rule. It yields a Finding for each breach
and None for each check that holds. A rule that looked at nothing fails, and so does an exception
that is no longer needed.
"""

import argparse
import functools
import itertools
import pathlib
import re
import subprocess
import sys
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
NO_TEXT = {".png", ".jpg", ".gz", ".npy", ".npz", ".lock"}
GENERATED = (
    "ffi/abi/recorded.",  # by ffi/abi/record.py
    "ci/checks/golden/segments/",
    "ci/checks/golden/bad_segments/",
    "ci/checks/golden/index.json",
    "core/tests/behaviour/npy_corpus/expected.json",  # by make.py beside it
    "ci/measurements/RESULTS.md",
    "ci/measurements/results.json",
)
OURS = ("ci/checks/rules.py", "ci/checks/test_rules.py")  # they spell what they refuse
ARCHITECTURE = "ARCHITECTURE.md"
CONTRIBUTING = "CONTRIBUTING.md"


class Finding(NamedTuple):
    """A breach of a rule."""

    path: str
    line: int
    says: str


class Tree:
    """A folder that holds this repository or a part of it."""

    def __init__(self, root):
        self.root = pathlib.Path(root).resolve()

    @functools.cached_property
    def paths(self):
        """Every file that git tracks or would track; without git every file."""
        if (self.root / ".git").exists():
            command = ["git", "ls-files", "-co", "--exclude-standard"]
            listed = subprocess.check_output(command, cwd=self.root, text=True).splitlines()
            return [path for path in listed if (self.root / path).is_file()]
        files = (path for path in self.root.rglob("*") if path.is_file())
        return sorted(str(path.relative_to(self.root)) for path in files)

    def written(self, *endings):
        """The files of text that people write, each with its lines."""
        for path in self.paths:
            if path.startswith((*GENERATED, *OURS)) or not path.endswith(endings or ("",)):
                continue
            if pathlib.Path(path).suffix in NO_TEXT or (self.root / path).is_symlink():
                continue
            data = (self.root / path).read_bytes()
            try:
                text = data.decode()
            except UnicodeDecodeError:
                continue
            if "\0" not in text:
                yield path, text.splitlines()

    def lines(self, path):
        return (self.root / path).read_text().splitlines()


# Words

MEMORY = r"(?:shared|mapped|anonymous)[- ]memory|memory|SharedMemory|shm|mmap"
OWNER = rf"(?:{MEMORY}|slab|segment|pool|cell)(?:'s|s')?"
PIECE = r"(?:block|chunk)s?"
OF_A_SEGMENT = (
    "(?:attach|base|cell|fd|free|generation|handle|header|holder|lease|mapp?(?:ed|ing)?|mem|memory"
    "|mmap|page|pool|segment|shared|shm|shma|slab|unlink)"
)
WORDS = {
    "region": r"(?<![A-Za-z])regions?(?![a-z])|[a-z](?-i:Region)s?(?![a-z])",
    "arena": r"(?<![A-Za-z])arenas?(?![a-z])|[a-z](?-i:Arena)s?(?![a-z])",
    "block, chunk": rf"\b(?:{OWNER}|named|warm|pooled|held|attached|leased|free)[- ]{PIECE}\b"
    rf"|\b{PIECE} (?:of|in|inside|from) (?:(?:the|a|each|this) )?{OWNER}\b"
    rf"|\b{PIECE}(?:'s|s')? (?:header|handle|id|lease|generation)s?\b"
    rf"|\b{OF_A_SEGMENT}_{PIECE}\b|\b{PIECE}_{OF_A_SEGMENT}\b"
    r"|\b(?:struct|class|enum|union|trait|type) +\w*(?-i:Block|Chunk)s?\b",
    "file descriptor": r"\bfile[- ]descriptors?\b",
    "keeper": r"\bkeepers?\b",
}
INSTEAD = {"file descriptor": "fd", "keeper": "lease"}  # the others stand for a segment
SYNONYM = {word: re.compile(pattern, re.I) for word, pattern in WORDS.items()}
# (the end of a path, a word): the reason that it stands there.
WORDS_EXCEPTED = {
    ("examples/guide/words.md", "file descriptor"): "says which word is used instead",
    ("CONTRIBUTING.md", "region"): "says which words a segment is not called by",
    ("CONTRIBUTING.md", "arena"): "says which words a segment is not called by",
    ("CONTRIBUTING.md", "keeper"): "says which word a lease is not called by",
    ("CONTRIBUTING.md", "file descriptor"): "says which word an fd is not called by",
    ("tasks/test_message.py", "file descriptor"): "the operating system's own message",
    ("tasks/test_mp_connection.py", "file descriptor"): "the operating system's own message",
    ("doctor/read/mounts.rs", "block, chunk"): "statvfs's word: the name of rustix's method",
    ("core/Cargo.toml", "region"): "a crate: it sets page protection on macOS and Windows",
    ("portable/directory.rs", "region"): "that crate",
    ("portable/segment_file.rs", "region"): "that crate",
    ("programs/channels.py", "region"): "kickmsg's name",
    ("linux/map.rs", "region"): "the kernel's `struct page_region` of PAGEMAP_SCAN",
}


def words(tree):
    """A segment is never called a region, arena, block or chunk, an fd never a file descriptor,
    and a lease never a keeper."""
    used = set()
    for path, lines in tree.written():
        for number, line in enumerate([path, *lines]):
            for word, pattern in SYNONYM.items():
                if not (match := pattern.search(line)):
                    continue
                excepted = {key for key in WORDS_EXCEPTED if path.endswith(key[0])}
                if excepted := {key for key in excepted if key[1] == word}:
                    used |= excepted
                else:
                    say = INSTEAD.get(word, "segment")
                    yield Finding(path, number, f'"{match[0]}": say {say}, if it is one')
        yield None
    yield from unneeded(tree, "words", WORDS_EXCEPTED.keys() - used)


def unneeded(tree, rule, exceptions):
    """A finding for each exception that nothing needs; a part of the repository needs few."""
    if (tree.root / ".git").exists():
        for exception in sorted(exceptions):
            says = f"the exception {exception} of {rule} is no longer needed"
            yield Finding(OURS[0], 0, says)


# Homonyms

TYPES = {
    ".rs": re.compile(r"^ *pub(?:\([a-z ]+\))? (?:struct|enum|trait|type|union) (\w+)"),
    ".py": re.compile(r"^class ([A-Z]\w*)"),
    ".rb": re.compile(r"^ *class ([A-Z]\w*)"),
    ".hpp": re.compile(r"^(?:class|struct) (\w+)\b(?!<)[^;]*$"),  # but a specialization
}
SOURCES = (
    "core/src/",
    "ffi/src/",
    "bindings/python/python/",
    "bindings/ruby/lib/",
    "bindings/cpp/include/",
)
TEST_FILE = re.compile(r"tests?[/_.]|_tests?\b")
# What stands in for another under the same name.
STAND_INS = re.compile(
    r"/system/.*|/control/(?:channel_words|mapped|modelled\w*)\.rs|/multiprocessing/.*"
)
# (the source, the name): why it stands for two.
HOMONYMS_EXCEPTED = {
    ("bindings/python/python/", "WorkerLost"): "the same error, which is also BrokenProcessPool",
    ("bindings/ruby/lib/", "Array"): "one class, opened in each of its files",
    ("bindings/ruby/lib/", "Channel"): "Numo's channel is a Shmarray::Channel",
    ("bindings/ruby/lib/", "Dict"): "Numo's dictionary is a Shmarray::Dict",
    ("bindings/ruby/lib/", "List"): "Numo's list is a Shmarray::List",
    ("bindings/ruby/lib/", "NpzFile"): "Numo's file is a Shmarray::NpzFile",
}


def homonyms(tree):
    """A type name has one meaning: no two modules of one language's sources define it. The files
    of system and of the control words stand in for one another, as do those of multiprocessing."""
    found = {}  # (source, type): {module: (path, line)}
    for path, lines in tree.written(*TYPES):
        source = next((source for source in SOURCES if path.startswith(source)), None)
        if source is None or TEST_FILE.search(path):
            continue
        pattern = TYPES[pathlib.Path(path).suffix]
        for number, line in enumerate(lines, 1):
            if line.startswith("#[cfg(test)]") and lines[number].startswith("mod tests"):
                break
            if name := pattern.match(line):
                module = STAND_INS.sub("", "/" + path)
                found.setdefault((source, name[1]), {})[module] = path, number
    used = set()
    for (source, name), modules in sorted(found.items()):
        if len(modules) == 1 or (source, name) in HOMONYMS_EXCEPTED:
            used |= {(source, name)} if len(modules) > 1 else set()
            yield None
            continue
        (first, _), *others = modules.values()
        for path, number in others:
            yield Finding(path, number, f"{name} has another meaning in {first}")
    yield from unneeded(tree, "homonyms", HOMONYMS_EXCEPTED.keys() - used)


# Hosts

HOSTS = re.compile(
    r"(?:\b[a-z+]+:)?//(?:[^\s/@]+@)?(?:[\w-]+\.)*"
    r"(?:crates\.io|pypi\.org|pypi\.python\.org|pythonhosted\.org|rubygems\.org|npmjs\.(?:org|com)"
    r"|yarnpkg\.com|proxy\.golang\.org|(?:deb|ftp|security|archive)\.(?:debian\.org|ubuntu\.com))"
    r"|\b(?:[\w-]+\.)*(?:crates\.io|pypi\.org|pythonhosted\.org|rubygems\.org)/"
    r"|\bcrates\.io-index\b",
    re.I,
)


def hosts(tree):
    """No file but a change log names the host of a package registry: each tool's own settings say
    where packages are."""
    for path, lines in tree.written():
        if not path.endswith("CHANGELOG.md"):
            found = ((number, HOSTS.search(line)) for number, line in enumerate(lines, 1))
            yield from (Finding(path, at, f"names {host[0]}") for at, host in found if host)
            yield None


# Suites

# Suites that a machine may lack something for, and a form that is absent without a Numo.
ABSENT_HERE = {
    "Python 3.x",
    "Python 3.x: CPython's tests of multiprocessing",
    "Python 3.x: CPython's tests of futures",
    "examples: Ruby",
}
FORM_ABSENT_HERE = ("Ruby", "release")


def suites(tree):
    """CONTRIBUTING's table has every suite of the runner, says which forms each has, and names no
    other."""
    rows = {}  # suite: (line, has it the form, in the order of the forms)
    for number, line in enumerate(tree.lines(CONTRIBUTING), 1):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and len(cells) == 4 and cells[0] not in ("suite", "---"):
            if cells[0] in rows:
                yield Finding(CONTRIBUTING, number, f"two rows for {cells[0]}")
            rows[cells[0]] = number, [cell != "–" for cell in cells[1:]]
    forms = suites_by_form()
    listed = set().union(*forms.values())
    for name in sorted(listed - rows.keys()):
        yield Finding(CONTRIBUTING, 0, f"the table lacks the suite {name}")
    for name, (number, says) in rows.items():
        if name not in listed | ABSENT_HERE:
            yield Finding(CONTRIBUTING, number, f"ci/checks/runner has no suite {name}")
            continue
        for form, is_said in zip(forms, says, strict=True):
            is_right = is_said == (name in forms[form]) or (name, form) == FORM_ABSENT_HERE
            is_right = is_right or name in ABSENT_HERE
            wrong = Finding(CONTRIBUTING, number, f"{name}: its {form} form is not as listed")
            yield None if is_right else wrong


def suites_by_form():
    """The names of the suites of each form: all that this file knows of ci/checks/runner."""
    sys.path.append(str(ROOT / "ci/checks/runner"))
    import listed

    of_any_python = functools.partial(re.sub, r"^Python 3\.\d+", "Python 3.x")
    return {form: {of_any_python(suite.name) for suite in of} for form, of in listed.FORMS.items()}


# Features

ALONE = ("shmarray-python", "shmarray-ruby")  # are built by themselves


def features(tree):
    """Core and what it is built from have the same features in every crate of the workspace, or a
    binding would build core again: see the workspace's Cargo.toml."""
    names = {line.split()[0] for line in built_from(tree.root, "shmarray")}
    together = built_from(tree.root, "shmarray-ffi", "shmarray-cli")
    below = {line for line in together if line.split()[0] in names}
    for package in ALONE:
        there = built_from(tree.root, package)
        for line in sorted(below):
            says = f"{package} has other features than ffi and the command line of {line}"
            yield None if line in there else Finding("Cargo.toml", 0, says)


def built_from(root, *packages):
    """Each crate that the packages are built from, with its features."""
    chosen = [word for package in packages for word in ("-p", package)]
    form = ["--edges", "normal,build", "--prefix", "none", "--format", "{p} [{f}]"]
    command = ["cargo", "tree", *chosen, *form]
    said = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    return {line.removesuffix(" (*)") for line in said.splitlines() if line.strip()}


# Modules

CORE = "core/src"
MOD = re.compile(r"^ *(?:pub(?:\([a-z ]+\))? )?mod (\w+);", re.M)
PUBLIC_MOD = re.compile(r"^pub(?:\(crate\))? mod (\w+);", re.M)  # of a floor, for others
EXPORTED = re.compile(r"^pub use ([\w:]+)::(?:\{([^}]*)\}|(\w+));", re.M)
USED = re.compile(r"\b(crate|super(?:::super)*)::(\{[^;]*\}(?=;)|\w+(?:::\w+)*)")


def modules(tree):
    """ARCHITECTURE lists every floor of core and its modules, and each module names in a path only
    modules that its parent's `mod` lines list before it."""
    order = {}  # a module's path: its children, in the order of the `mod` lines
    files = {}
    for path, lines in tree.written(".rs"):
        if path.startswith(f"{CORE}/") and not TEST_FILE.search(path):
            parts = path.removeprefix(f"{CORE}/").removesuffix(".rs").split("/")
            module = tuple(parts[:-1] if parts[-1] in ("mod", "lib") else parts)
            order[module] = MOD.findall("\n".join(lines))
            files[module] = path, lines
    guide = "\n".join(tree.lines(ARCHITECTURE))
    for module, (_, lines) in files.items():
        names = PUBLIC_MOD.findall("\n".join(lines)) if len(module) < 2 else ()
        for name in names:
            is_there = re.search(rf"^\|(?:[^|]*\|)?[^|]*`{name}`", guide, re.M)
            yield None if is_there else Finding(ARCHITECTURE, 0, f"lists no module {name} of core")
    exported = {}  # a name of the crate: the module that it is from
    for start, several, one in EXPORTED.findall("\n".join(files[()][1]) if () in files else ""):
        exported |= dict.fromkeys(re.findall(r"\w+", several or one), start.split("::"))
    for module, (path, lines) in files.items():
        text = "\n".join(line.split("//")[0] for line in lines).partition(
            "\n#[cfg(test)]\nmod tests"
        )[0]
        for used in USED.finditer(text):
            number = text.count("\n", 0, used.start()) + 1
            yield from out_of_order(order, exported, module, *used.groups(), path, number)


def out_of_order(order, exported, module, start, used, path, number):
    """None, and a finding for each name that lies in a module listed after the one that uses it."""
    above = () if start == "crate" else module[: -start.count("super")]
    names = [used]
    if used[0] == "{":
        names = re.findall(r"\w+(?:::\w+)*", re.sub(r"\{[^{}]*\}", "", used[1:-1]))
    for name in names:
        target = [*above, *name.split("::")]
        if target[0] in exported and module:
            target = [*exported[target[0]], *target]
        pairs = zip(module, target, strict=False)
        common = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
        children = order.get(module[:common], [])
        pair = [*module[common : common + 1], *target[common : common + 1]]
        places = [children.index(name) for name in pair if name in children]
        if len(places) == 2 and places[0] < places[1]:
            yield Finding(path, number, f"{pair[0]} uses {pair[1]}, which is after it")
    yield None


# Width


def width(tree):
    """A line has at most 100 columns, comments and pages too, except tables, addresses and
    the texts of others. No formatter sees comments, pages and shell."""
    for path, lines in tree.written():
        if path.endswith((".json", "-LICENSES")):
            continue
        for number, line in enumerate(lines, 1):
            is_free = line.lstrip(" /!#").startswith("|") or "://" in line or "](" in line
            if not is_free and len(line) > 100:
                yield Finding(path, number, f"{len(line)} columns")
        yield None


# Pages

RUST_DOC = re.compile(r"^\s*//[/!] ?")
DELIMITER = re.compile(r"\|(?: *:?-+:? *\|)+ *$")


def tables(tree):
    """Each row of a Markdown table follows the one before it and has as many cells as its head."""
    for path, lines in tree.written(".md", ".rs"):
        if path.endswith(".rs"):
            lines = [line[m.end() :] if (m := RUST_DOC.match(line)) else "" for line in lines]
        cells = 0  # of the table's head; 0 outside of a table
        in_code = False
        for number, line in enumerate([*lines, ""], 1):
            in_code ^= line.strip().startswith("```")
            if in_code or not line.startswith("|"):
                cells = 0
                continue
            own = len(re.findall(r"(?<!\\)\|", line.rstrip())) - 1
            if not cells:
                cells = own
                if number == len(lines) or not DELIMITER.match(lines[number]):
                    yield Finding(path, number, "a row that stands apart from its table")
            is_right = own == cells
            says = f"a row of {own} cells in a table of {cells}"
            yield None if is_right else Finding(path, number, says)


def folders(tree):
    """ARCHITECTURE and CONTRIBUTING list every folder of ci/."""
    names = {path.split("/")[1] for path in tree.paths if re.match("ci/.*/", path)}
    for page in (ARCHITECTURE, CONTRIBUTING):
        text = "\n".join(line for line in tree.lines(page) if line.startswith("|"))
        for name in sorted(names):
            is_there = re.search(rf"^\|[^|]*`(?:ci/)?{name}/`", text, re.M)
            yield None if is_there else Finding(page, 0, f"lists no folder ci/{name}/")


def fuzz_targets(tree):
    """core/fuzz/README.md lists every fuzz target."""
    page = "core/fuzz/README.md"
    text = "\n".join(tree.lines(page)).partition("\n## ")[0]
    for path in tree.paths:
        if match := re.fullmatch(r"core/fuzz/fuzz_targets/(\w+)\.rs", path):
            is_there = f"\n| `{match[1]}` |" in text
            yield None if is_there else Finding(page, 0, f"lists no target {match[1]}")


ALL = (words, homonyms, hosts, suites, features, modules, width, tables, folders, fuzz_targets)
RULES = {rule.__name__: rule for rule in ALL}


def check(name, tree):
    """The findings of a rule, and how many of its checks hold."""
    outcome = list(RULES[name](tree)) or [Finding("", 0, "this rule looked at nothing")]
    return [finding for finding in outcome if finding], outcome.count(None)


def main():
    parser = argparse.ArgumentParser(
        prog="ci/tidy", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rules", nargs="*", metavar="RULE")
    parser.add_argument("--root", default=ROOT)
    parser.add_argument("--list", action="store_true")
    chosen = parser.parse_args()
    if unknown := set(chosen.rules) - RULES.keys():
        parser.error(f"no such rule: {', '.join(sorted(unknown))}; --list names them")
    if chosen.list:
        for name, rule in RULES.items():
            print(f"{name}\n    {' '.join(rule.__doc__.split())}")
        return 0
    passed = failed = 0
    tree = Tree(chosen.root)
    for name in chosen.rules or RULES:
        findings, holds = check(name, tree)
        for finding in findings:
            print(f"FAILED {finding.path}:{finding.line}: {finding.says} ({name})")
        print(f"{name:12} {holds} hold, {len(findings)} fail")
        passed, failed = passed + holds, failed + len(findings)
    print(f"house rules: {passed} passed, {failed} failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
