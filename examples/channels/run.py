"""Runs the camera, the filter and the report; stops each in turn, by force, and starts it again.

python run.py --camera PROGRAM [--quick]
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import shmarray
import skimage.data
import skimage.io

HERE = pathlib.Path(__file__).parent
PHOTOS = ("coffee.png", "chelsea.png", "astronaut.png")
FRAMES_PER_SECOND = 60


def save_photographs(path):
    """Photographs that scikit-image brings with it, cut to one size."""
    folder = pathlib.Path(skimage.data.__file__).parent
    photographs = [skimage.io.imread(folder / name)[:300, :400, :3] for name in PHOTOS]
    shmarray.save_npy(path, np.ascontiguousarray(np.stack(photographs)))


class Programs:
    """The programs that run now, by name."""

    def __init__(self, camera, photographs):
        self._commands = {
            "camera": [camera, photographs, str(FRAMES_PER_SECOND)],
            "filter": [sys.executable, HERE / "filter.py"],
        }
        self._running = {}

    def start(self, name):
        self._running[name] = subprocess.Popen(list(map(str, self._commands[name])))

    def kill(self, name):
        self._running[name].kill()
        self._running.pop(name).wait()

    def end(self):
        for name in list(self._running):
            self.kill(name)


def report(lines):
    """Runs the report until it has printed so many lines."""
    command = ["ruby", str(HERE / "report.rb"), str(FRAMES_PER_SECOND // 2), str(lines)]
    subprocess.run(command, check=True)


def watch():
    command = [sys.executable, "-m", "shmarray", "watch", "--count", "2", "--interval", "0.5"]
    subprocess.run(command, check=True)


def main(camera, lines):
    with tempfile.TemporaryDirectory() as folder:
        photographs = pathlib.Path(folder) / "photographs.npy"
        save_photographs(photographs)
        programs = Programs(camera, photographs)
        try:
            programs.start("filter")  # it waits for a camera
            programs.start("camera")
            report(lines)
            for name in ("camera", "filter"):
                print(f"the {name} is killed and started again", flush=True)
                programs.kill(name)
                programs.start(name)
                report(lines)
            watch()
        finally:
            programs.end()
    shmarray.sweep()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--camera", required=True)
    parser.add_argument("--quick", action="store_true")
    chosen = parser.parse_args()
    main(chosen.camera, 1 if chosen.quick else 4)
