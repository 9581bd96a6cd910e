"""What becomes of an older file: after save_npy and save_npz it is as after NumPy's."""

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import shmarray
from processes import Peer
from test_npy import GRID, npy

NOBODY = 65534
BECOME_NOBODY = f"""
import os
os.setgroups([])
os.setgid({NOBODY})
os.setuid({NOBODY})

def refused(call, *arguments, **options):
    try:
        call(*arguments, **options)
    except Exception as error:
        return [type(error).__name__, str(error)]
    return ["no error", ""]
"""

SAVERS = {
    "numpy.save": np.save,
    "numpy.savez": np.savez,
    "save_npy": shmarray.save_npy,
    "save_npz": shmarray.save_npz,
}
OURS = [shmarray.save_npy, shmarray.save_npz]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can do that")


def path_for(folder, save):
    return folder / ("a.npz" if "npz" in save.__name__ or "savez" in save.__name__ else "a.npy")


@pytest.fixture(params=SAVERS.values(), ids=SAVERS)
def save(request):
    return request.param


@pytest.fixture
def path(tmp_path, save):
    """Returns the path of an older file, which is longer than the new one."""
    path = path_for(tmp_path, save)
    save(path, np.arange(1000.0))
    return path


def loaded(path):
    """Returns the array in a file, as NumPy reads it."""
    found = np.load(path)
    return found["arr_0"].tolist() if path.suffix == ".npz" else found.tolist()


def facts(path):
    found = path.stat()
    return found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode), found.st_nlink


def test_a_file_with_two_names_has_the_new_contents_under_both(path, save, tmp_path):
    os.link(path, tmp_path / f"other{path.suffix}")
    before = path.stat().st_ino
    save(path, GRID)
    assert loaded(path) == loaded(tmp_path / f"other{path.suffix}") == GRID.tolist()
    assert (path.stat().st_ino, len(os.listdir(tmp_path))) == (before, 2)


@needs_root
@pytest.mark.parametrize("mode", [0o600, 0o664, 0o444], ids=oct)
def test_a_file_that_root_saves_stays_its_owners(mode, path, save):
    os.chown(path, 1234, 4321)
    path.chmod(mode)
    save(path, GRID)
    assert (facts(path), loaded(path)) == ((1234, 4321, mode, 1), GRID.tolist())


def test_extended_attributes_stay(path, save):
    try:
        os.setxattr(path, "user.note", b"from the microscope")
    except OSError as error:
        pytest.skip(f"no attributes here: {error}")
    save(path, GRID)
    assert os.getxattr(path, "user.note") == b"from the microscope"
    assert loaded(path) == GRID.tolist()


@needs_root
def test_a_file_that_is_a_mount_is_written(path, save, tmp_path):
    host = tmp_path / f"host{path.suffix}"
    host.touch()
    done = subprocess.run(["mount", "--bind", host, path], capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"nothing can be mounted here: {done.stderr}")
    try:
        for array in (GRID, np.arange(100_000), GRID):
            save(path, array)
            assert loaded(path) == loaded(host) == array.tolist()
    finally:
        subprocess.run(["umount", path], check=True)
    assert sorted(os.listdir(tmp_path)) == sorted([path.name, host.name])


@pytest.fixture
def nobody():
    """Another process, of a user without rights."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    other = Peer()
    other.run("import io, numpy; numpy.savez(io.BytesIO(), 1)")  # while it may read NumPy's files
    other.run(BECOME_NOBODY)
    yield other
    other.leave()


@pytest.fixture
def open_folder():
    """A folder that every user can reach."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.mark.parametrize(
    ("folder_mode", "folder_owner"),
    [(0o755, 0), (0o1777, 0), (0o777, 0), (0o700, NOBODY)],
    ids=["its folder may not be written", "sticky folder", "open folder", "own folder"],
)
@pytest.mark.parametrize("name", SAVERS)
def test_another_users_file_is_written_if_it_may_be(
    name, folder_mode, folder_owner, nobody, open_folder
):
    path = path_for(open_folder, SAVERS[name])
    SAVERS[name](path, np.arange(1000.0))
    os.chown(open_folder, folder_owner, -1)
    open_folder.chmod(folder_mode)
    path.chmod(0o666)
    call = name if name.startswith("numpy") else f"shmarray.{name}"
    refused = f"answer = refused({call}, path, numpy.array(grid))"
    assert nobody.run(refused, path=str(path), grid=GRID.tolist()) == ["no error", ""]
    assert (facts(path), loaded(path)) == ((0, 0, 0o666, 1), GRID.tolist())
    path.chmod(0o644)
    assert nobody.run(refused, path=str(path), grid=[1])[0] == "PermissionError"
    assert (facts(path), loaded(path)) == ((0, 0, 0o644, 1), GRID.tolist())
    assert os.listdir(open_folder) == [path.name]


@pytest.mark.parametrize("save", OURS)
def test_an_array_is_saved_over_the_file_that_it_maps(save, tmp_path):
    raw = tmp_path / "raw"
    path = path_for(tmp_path, save)
    np.arange(1_000_000).tofile(raw)
    for link in (path, tmp_path / "other"):
        os.link(raw, link)
    mapped = np.memmap(path, dtype=int, mode="r")
    save(path, mapped[:-500_000:-1])
    assert loaded(path) == list(range(999_999, 500_000, -1))


@pytest.mark.parametrize("save", OURS)
def test_the_next_save_removes_what_a_killed_one_left(save, path, tmp_path):
    (tmp_path / ".shmarray-0.tmp").write_bytes(b"left")
    save(path, GRID)
    assert (loaded(path), os.listdir(tmp_path)) == (GRID.tolist(), [path.name])


@pytest.mark.parametrize("save", OURS)  # numpy.save needs a file that has a position
def test_the_path_of_a_pipe_is_written_as_it_is(save, tmp_path):
    link = path_for(tmp_path, save)
    link.symlink_to("/dev/stdout")
    call = f"shmarray.{save.__name__}(sys.argv[1], np.arange(300_000))"
    program = f"import sys, shmarray, numpy as np; {call}"
    done = subprocess.run([sys.executable, "-c", program, link], stdout=subprocess.PIPE, check=True)
    (tmp_path / "got").write_bytes(done.stdout)
    if link.suffix == ".npz":
        assert np.load(tmp_path / "got")["arr_0"].tolist() == list(range(300_000))
    else:
        assert done.stdout == npy(np.arange(300_000))
    assert link.is_symlink()
