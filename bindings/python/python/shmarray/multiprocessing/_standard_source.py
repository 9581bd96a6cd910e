"""Modules of the standard library whose own code is right, once it uses this package."""

import importlib.util
from typing import Any

__all__ = ["run"]


def run(name: str, namespace: dict[str, Any]) -> None:
    """Runs a standard module's code as the code of a module of this package, where its relative
    imports lead.
    """
    spec = importlib.util.find_spec(name)
    assert spec is not None
    exec(spec.loader.get_code(name), namespace)  # type: ignore[union-attr]
