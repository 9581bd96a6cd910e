"""A suite of tests."""

import pathlib
import re
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parents[3]


@dataclass
class Suite:
    """A suite of tests: its name, its command, and which form of ci/test it belongs to.

    In the command `{junit}` stands for the folder of the suite's JUnit files. A text in the place
    of the command is the reason to skip the suite. If `is_one_check`, the command leaves no JUnit
    files: it is the only test.
    """

    name: str
    command: list | str
    is_one_check: bool = False
    form: str = "quick"

    @property
    def label(self):
        return self.name if self.form == "quick" else f"{self.name} --{self.form}"

    @property
    def slug(self):
        return re.sub(r"\W+", "-", self.label)
