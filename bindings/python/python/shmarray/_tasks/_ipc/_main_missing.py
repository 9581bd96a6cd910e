"""The hint for a started process that lacks a name of its parent's ``__main__``."""

__all__ = ["add_hint"]

_REMEDY = (
    "This process has not run what defined it: a notebook, an interactive session or code below "
    '`if __name__ == "__main__"` is not run in a process that is started by spawn or forkserver, '
    "and a forked one has what was defined before it was started. Put it into a module and import "
    "it from there (in a notebook: %%writefile work.py), or define it first and start processes by "
    'shmarray.multiprocessing.get_context("fork").'
)


def add_hint(error: BaseException) -> None:
    """Adds the hint to the error if a name was not found in ``__main__``."""
    text = str(error)
    if isinstance(error, AttributeError) and "__main__" in text and _REMEDY not in text:
        error.args = (f"{text}. {_REMEDY}",)
