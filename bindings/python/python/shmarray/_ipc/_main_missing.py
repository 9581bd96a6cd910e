"""What to say in a started process that has not what its parent's ``__main__`` has."""

__all__ = ["tell"]

_REMEDY = (
    "This process has not run what defined it: a notebook, an interactive session or code below "
    '`if __name__ == "__main__"` is not run in a process that is started by spawn or forkserver, and a forked one '
    "has what was defined before it was started. Put it into a module and import it from there (in a notebook: "
    "%%writefile work.py), or define it first and start processes by "
    'shmarray.multiprocessing.get_context("fork").'
)


def tell(error: BaseException) -> None:
    """Adds the remedy to the error of unpickling a name that ``__main__`` has only in the parent."""
    text = str(error)
    if isinstance(error, AttributeError) and "__main__" in text and _REMEDY not in text:
        error.args = (f"{text}. {_REMEDY}",)
