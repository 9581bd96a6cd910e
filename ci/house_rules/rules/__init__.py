"""The house rules: each module is one, and its docstring is the rule."""

import pathlib

NAMES = sorted(path.stem for path in pathlib.Path(__file__).parent.glob("[a-z]*.py"))
