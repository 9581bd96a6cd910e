"""The command ``shmarray``, which pip installs, and which ``python -m shmarray`` runs."""

import signal
import sys

from . import _core
from . import _replaced as _replaced


def main() -> int:
    """Runs the command with this process's arguments. Returns its exit code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Python's own handler would run only after the command has ended.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _core.run_command(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
