"""Lays out the pages of the site for mdBook: those that the guide's SUMMARY.md lists.

    python ci/published/site.py FOLDER            writes them there, with mdBook's settings
    python ci/published/site.py --check FOLDER    follows the links of the site that mdBook wrote

A page keeps its path in the repository, so links between pages stay as they are. Other links go to
the repository on the web. One that leads nowhere is an error, and so is one to a heading that a
page of the site has not. Links of the references are their programs' own.
"""

import functools
import os
import pathlib
import re
import shutil
import sys
import urllib.parse
from html.parser import HTMLParser

ROOT = pathlib.Path(__file__).resolve().parents[2]
GUIDE = pathlib.Path("examples/guide")
REPOSITORY = "https://github.com/shmarray/shmarray"
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(\s*([^\s)]+)\s*\)")
FENCE = re.compile(r"^(```.*?^```$)", re.M | re.S)
SETTINGS = f"""\
[book]
title = "shmarray"
description = "Typed n-dimensional arrays in shared memory, the same in every language"
src = "src"
language = "en"
[build]
use-default-preprocessors = false
[output.html]
git-repository-url = "{REPOSITORY}"
no-section-label = true
default-theme = "light"
preferred-dark-theme = "navy"
additional-css = ["width.css"]
[output.html.fold]
enable = false
[output.html.print]
enable = false
"""

# Lines of 100 columns fit beside the list of pages, and tables on a telephone.
STYLE = """\
:root { --content-max-width: 900px; }
@media (max-width: 620px) { table td, table th { padding: 3px 6px !important; } }
"""


def within(page, target):
    """Returns the path in the repository that a link of a page leads to."""
    return pathlib.Path(os.path.normpath(page.parent / target))


def pages():
    """Returns the paths of all pages, in the order of the summary."""
    summary = (ROOT / GUIDE / "SUMMARY.md").read_text()
    links = [link for _, _, link in LINK.findall(summary)]
    return list(dict.fromkeys(within(GUIDE / "SUMMARY.md", link) for link in links))


class Site:
    def __init__(self, folder):
        self.source = folder / "src"
        self.pages = pages()
        self.nowhere = []

    def link(self, page, link):
        """Returns what stands for a link in the site."""
        target, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            own = re.match(rf"{REPOSITORY}/blob/main/([^#]+)", link)
            path = pathlib.Path(own[1]) if own else None
            if path not in self.pages:
                return link
            return os.path.relpath(path, page.parent) + (f"#{anchor}" if anchor else "")
        if not target:
            return link
        path = within(page, target)
        if path.parts[0] == "reference":  # which the site alone has
            return link
        if path in self.pages or path.suffix in (".png", ".svg"):
            if path not in self.pages:
                self.copy(path)
            return link
        if not (ROOT / path).exists():
            self.nowhere.append(f"{page}: {link}")
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        return f"{REPOSITORY}/{kind}/main/{path}" + (f"#{anchor}" if anchor else "")

    def copy(self, path):
        (self.source / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, self.source / path)

    def text(self, page):
        """Returns the text of a page with its links as the site has them."""

        def changed(found):
            mark, words, link = found.groups()
            return f"{mark}[{LINK.sub(changed, words)}]({self.link(page, link)})"

        parts = FENCE.split((ROOT / page).read_text())
        return "".join(
            part if part.startswith("```") else LINK.sub(changed, part) for part in parts
        )

    def summary(self):
        """Returns the summary with paths from the top, which mdBook resolves from its source."""
        text = (ROOT / GUIDE / "SUMMARY.md").read_text()

        def changed(found):
            return f"[{found[2]}]({within(GUIDE / 'SUMMARY.md', found[3])})"

        return LINK.sub(changed, text)

    def write(self):
        for page in self.pages:
            (self.source / page).parent.mkdir(parents=True, exist_ok=True)
            (self.source / page).write_text(self.text(page))
        (self.source / "SUMMARY.md").write_text(self.summary())
        (self.source.parent / "book.toml").write_text(SETTINGS)
        (self.source.parent / "width.css").write_text(STYLE)


class Page(HTMLParser):
    """The links of a page of HTML, and what they can lead to in it."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors = [], {""}
        self.feed(path.read_text())

    def handle_starttag(self, _tag, attributes):
        for name, value in attributes:
            if name in ("id", "name"):
                self.anchors.add(value)
            elif name in ("href", "src") and not re.match(r"[a-z]+:|//", value):
                self.links.append(value)


def check(folder):
    """Returns how many links were followed, and those that lead nowhere."""
    paths = [path for path in folder.rglob("*.html") if "reference" not in path.parts]
    read = functools.cache(Page)
    followed, nowhere = 0, []
    for path in paths:
        if path.name in ("toc.html", "404.html"):
            continue
        for link in read(path).links:
            target, _, anchor = urllib.parse.unquote(link).partition("#")
            file = pathlib.Path(os.path.normpath(path.parent / target)) if target else path
            followed += 1
            is_page = file.suffix == ".html" and file.exists()
            if not file.exists() or anchor and is_page and anchor not in read(file).anchors:
                nowhere.append(f"{path.relative_to(folder)}: {link}")
    return followed, nowhere


def main():
    if sys.argv[1] == "--check":
        followed, nowhere = check(pathlib.Path(sys.argv[2]))
        print(f"{followed} links followed")
        print(*(f"FAILED: a link leads nowhere: {link}" for link in nowhere), sep="\n")
        sys.exit(bool(nowhere) or not followed)
    folder = pathlib.Path(sys.argv[1])
    shutil.rmtree(folder, ignore_errors=True)
    site = Site(folder)
    site.write()
    unlisted = {path.relative_to(ROOT) for path in ROOT.glob(f"{GUIDE}/*.md")} - {
        *site.pages,
        GUIDE / "SUMMARY.md",
    }
    for error in [*site.nowhere, *(f"{page} is not in SUMMARY.md" for page in sorted(unlisted))]:
        print(f"FAILED: a link leads nowhere: {error}")
    sys.exit(bool(site.nowhere or unlisted))


if __name__ == "__main__":
    main()
