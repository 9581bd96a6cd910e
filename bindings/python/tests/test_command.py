"""What pip installs as `shmarray`, and `python -m shmarray`, are the command that the C library
comes with.
"""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import shmarray

SCRIPTS = sysconfig.get_path("scripts")
REPOSITORY = Path(__file__).parents[3]
WAYS = {
    "pip's": [os.path.join(SCRIPTS, "shmarray")],
    "the module's": [sys.executable, "-m", "shmarray"],
}
PIPE_BYTES = 4096


@pytest.fixture(params=WAYS.values(), ids=WAYS)
def command(request):
    return request.param


@pytest.fixture
def native():
    """The command that is installed with the C library."""
    others = [folder for folder in os.environ["PATH"].split(os.pathsep) if folder != SCRIPTS]
    found = shutil.which("shmarray", path=os.pathsep.join(others))
    if found is None:
        pytest.skip("the command of the C library is not on the paths")
    return [found]


def ended(command, *arguments):
    environment = os.environ | {
        "RUST_BACKTRACE": "0"
    }  # another version would show that they are two programs
    done = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, check=False, env=environment
    )
    return done.returncode, done.stdout, done.stderr


def test_it_lists_the_arrays_that_this_process_has(command):
    a = shmarray.zeros(3, "<i4", name="frames")
    code, listed, said = ended(command, "ls", "--json")
    assert (code, said) == (0, "")
    (one,) = [one for one in json.loads(listed)["segments"] if one["kind"] == "array"]
    assert (*one,) == shmarray.segments()[0]._fields
    assert (one["name"], one["dtype"], one["holders"][0]["pid"]) == ("frames", "<i4", os.getpid())
    assert ended(command, "rm", "frames") == (0, "", "")
    with pytest.raises(FileNotFoundError):
        shmarray.attach("frames")
    del a


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["ls", "--help"],
        ["--version"],
        [],
        ["lss"],
        ["rm"],
        ["rm", "nobody"],
        ["show", "{}"],
        ["sweep"],
    ],
    ids=" ".join,
)
def test_it_says_and_ends_with_what_the_native_command_does(arguments, command, native):
    expected = ended(native, *arguments)
    assert ended(command, *arguments) == expected
    assert "".join(expected[1:]) != ""


def test_it_finds_the_problems_that_the_native_command_finds(command, native):
    def findings(which):
        code, said, _ = ended(which, "doctor", "--json")
        return code, [(one["check"], one["verdict"]) for one in json.loads(said)]

    expected = findings(native)
    assert len(expected[1]) >= 5
    assert findings(command) == expected


def test_its_help_calls_it_by_its_name(command):
    code, said, _ = ended(command, "--help")
    assert code == 0
    assert "Usage: shmarray <COMMAND>" in said


def test_a_name_that_is_no_text_is_told_and_fails(command):
    code, said, why = ended(command, "rm", b"\xff")
    assert (code, said) == (2, "")
    assert "UTF-8" in why


def test_it_ends_quietly_when_nobody_reads_what_it_says(command):
    end, other = os.pipe()
    os.close(end)
    done = subprocess.run(
        [*command, "ls"], stdout=other, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(other)
    assert (done.returncode, done.stderr) == (141, "")


def test_ctrl_c_ends_it_at_once_and_quietly(command):
    arrays = [shmarray.zeros(1) for _ in range(100)]
    end, other = os.pipe()
    fcntl.fcntl(other, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    child = subprocess.Popen([*command, "ls"], stdout=other, stderr=subprocess.PIPE, text=True)
    os.close(other)
    assert os.read(end, 1) == b"S"  # it has begun to write, and the rest finds no room in the pipe
    child.send_signal(signal.SIGINT)
    assert child.communicate()[1] == ""
    assert child.returncode == -signal.SIGINT
    assert b"total" not in os.read(end, PIPE_BYTES)
    os.close(end)
    del arrays


def test_neither_command_hides_the_other_after_ci_env():
    prefix = REPOSITORY / "target/ci/prefix/bin/shmarray"
    if not prefix.exists():
        pytest.skip("the C library was not installed by ci/test")
    script = f". {REPOSITORY}/ci/env; command -v shmarray; python -m shmarray --version"
    found, version = subprocess.check_output(["bash", "-c", script], text=True).splitlines()
    assert found == str(prefix)
    assert version == f"shmarray {shmarray.__version__}"
