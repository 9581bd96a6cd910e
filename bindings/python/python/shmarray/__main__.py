"""The command ``shmarray``: what pip installs under that name, and ``python -m shmarray``."""

import signal
import sys

from . import _core


def main() -> int:
    """Runs the command with this process's arguments. Returns its exit code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(
            signal.SIGINT, signal.SIG_DFL
        )  # Python would notice Ctrl-C only when the command has ended
    return _core.run_command(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
