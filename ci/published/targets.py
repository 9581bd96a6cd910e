"""Checks that core refuses the targets on which it cannot work, in one sentence and nothing else.

python ci/published/targets.py
"""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "ci/checks/runner"))
import junit  # noqa: E402 (of a folder that is no package)

SENTENCE = "shmarray needs Linux, macOS or Windows on a little-endian machine with 64-bit pointers"
REFUSED = {
    "s390x-unknown-linux-gnu": "big endian",
    "i686-unknown-linux-gnu": "32 bits",
    "x86_64-unknown-freebsd": "a system without a backend",
}


def errors_of(target):
    """The compiler's errors for a target, each with its crate: none if everything compiles.

    What is written in C is left out: there is no C compiler for these targets.
    """
    crate = ["-p", "shmarray", "--no-default-features"]
    check = ["cargo", "check", "-q", *crate, "--message-format", "json"]
    done = subprocess.run(
        [*check, "--target", target], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False
    )
    for line in done.stdout.splitlines():
        said = json.loads(line)
        if said["reason"] == "compiler-message" and said["message"]["level"] == "error":
            yield said["target"]["name"], said["message"]["message"]


def main():
    outcomes = []
    for target, reason in REFUSED.items():
        errors = [error for error in errors_of(target) if "aborting due to" not in error[1]]
        refused = errors == [("shmarray", SENTENCE)]
        outcomes.append((target, "passed" if refused else "failed"))
        print(f"{target}, {reason}: {'ok' if refused else f'FAILED: {errors}'}", flush=True)
    sys.exit(junit.close("targets", outcomes))


if __name__ == "__main__":
    main()
