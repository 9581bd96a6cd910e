"""A filter: finds the edges in each frame of the camera, and publishes them.

It may be stopped and started again while the others run, and waits for a camera that is away.
"""

import time

import numpy as np
import shmarray


def edges(frame, out):
    """The brightness's gradient, (|gx| + |gy|) / 2, in place."""
    grey = frame.mean(axis=2)
    gx = np.abs(np.diff(grey, axis=1, prepend=grey[:, :1]))
    gy = np.abs(np.diff(grey, axis=0, prepend=grey[:1]))
    out[:] = np.minimum(255, (gx + gy) / 2)


def main():
    camera = shmarray.Channel.open("camera", timeout=None)
    shape = camera.shape[:2]
    found = shmarray.Channel.create(
        "edges", shape, "u1", mode="broadcast", when_full="drop_oldest", exist_ok=True
    )
    while True:
        for message in camera.messages():
            with found.loan(meta=message.meta) as out:
                edges(message.array, out)
        time.sleep(0.1)  # no camera sends now


if __name__ == "__main__":
    main()
