"""Checks that RESULTS.md, the pictures and the README's caption come from results.json.

. ci/env; python ci/measurements/check.py
"""

import json
import re
import sys

import report
from harness import HERE, ROOT
from PIL import Image

sys.path.append(str(ROOT / "ci/checks/runner"))
import junit  # noqa: E402 (of a folder that is no package)


def published(results):
    """Yields each published text: its name, the text, and what results.json gives."""
    words = report.caption(results)
    readme = (ROOT / "README.md").read_text()
    beside = re.search(r"^!\[([^]]*)\]\(ci/measurements/results\.png\)$", readme, re.M)
    yield "RESULTS.md", (HERE / "RESULTS.md").read_text(), report.text(results)
    yield "the README's words beside the picture", beside and " ".join(beside[1].split()), words
    for picture in ("results.png", *report.pictures(results)):
        with Image.open(HERE / picture) as image:
            yield picture, image.text.get("Description"), words


def main():
    outcomes = []
    for name, there, expected in published(json.loads((HERE / "results.json").read_text())):
        outcomes.append((name, "passed" if there == expected else "failed"))
        if there != expected:
            print(
                f"{name} is not of this results.json: write it with ci/bench --draw",
                there,
                expected,
                sep="\n",
                flush=True,
            )
    sys.exit(junit.close("what is published", outcomes))


if __name__ == "__main__":
    main()
