"""Samples such as people keep in NPZ files: images, masks, labels, points, boxes, tokens, features.

    python npy_corpus.py FOLDER        writes all of them

Each sample is made from its name alone, so every run has the same. `numpy.savez` puts a member
behind a header of 30 bytes, its name and its padding, so members lie at any alignment, as in
people's own files.
"""

import pathlib
import sys
import zlib

import numpy as np

STORED = "stored"
ALIGNED = "aligned"
DEFLATED = "deflated"
"""Stored by NumPy, stored by `shmarray.save_npz(…, align=64)`, and deflated by NumPy."""
FORMS = (STORED, ALIGNED, DEFLATED)


def grid(height, width):
    return np.mgrid[:height, :width]


def photo(random, height, width):
    """Slopes of light with the noise of a camera, as (height, width, 3) bytes."""
    y, x = grid(height, width)
    phases = random.uniform(0, 6, (2, 3))
    light = np.sin(x[..., None] / 31 + phases[0]) * np.cos(y[..., None] / 47 + phases[1])
    noise = random.normal(0, 4, (height, width, 3))
    return (128 + 60 * light + noise).clip(0, 255).astype("u1")


def normalized(image):
    """A photo as networks take it: channels first, with a mean of about 0, as f4."""
    scaled = (image.transpose(2, 0, 1) / np.float32(255) - np.float32(0.45)) / np.float32(0.225)
    return np.ascontiguousarray(scaled, dtype="f4")


def blobs(random, height, width, dtype, classes=21):
    """A segmentation: ellipses of a class each, over a background of 0."""
    y, x = grid(height, width)
    labels = np.zeros((height, width), dtype)
    for _ in range(12):
        middle = random.uniform(0, 1, 2) * (height, width)
        radii = random.uniform(0.05, 0.25, 2) * (height, width)
        inside = ((y - middle[0]) / radii[0]) ** 2 + ((x - middle[1]) / radii[1]) ** 2 < 1
        labels[inside] = random.integers(1, classes)
    return labels


def smooth(random, height, width):
    """A map of depth, as f4."""
    y, x = grid(height, width)
    return (np.sin(x / 50 + random.uniform(0, 6)) + y / 100).astype("f4")


def sparse(random, shape):
    """One element of twenty is not 0, as f8."""
    return np.where(random.random(shape) < 0.05, random.random(shape), 0)


def surface(random, count, dtype):
    """Points of a scan: near a wavy plane, in the order of the scan."""
    along = np.sort(random.uniform(-50, 50, count))
    across = random.uniform(-50, 50, count)
    height = np.sin(along / 9) + random.normal(0, 0.02, count)
    return np.stack([along, across, height], axis=1).astype(dtype)


def boxes(random, count, dtype):
    """Corners of rectangles in an image of 640 × 480."""
    corners = random.uniform(0, 1, (count, 2, 2)) * (640, 480)
    return np.sort(corners, axis=1).reshape(count, 4).astype(dtype)


def tokens(random, rows, length):
    """Token numbers by Zipf's law: a few are most of a text."""
    return random.zipf(1.3, (rows, length)).clip(0, 50_000).astype("i4")


def padded(random, rows, length):
    """Texts of several lengths, padded with zeros, and their mask."""
    mask = np.arange(length) < random.integers(length // 8, length, (rows, 1))
    return {"input_ids": tokens(random, rows, length) * mask, "attention_mask": mask}


def label(random):
    return np.array(random.integers(1000))


def classes(random, count, most=21):
    return random.integers(most, size=count)


def graph(random, nodes, edges):
    return {
        "x": random.normal(0, 1, (nodes, 64)).astype("f4"),
        "edge_index": np.sort(random.integers(nodes, size=(2, edges)), axis=0),
        "y": classes(random, nodes),
    }


def whole_scene(random):
    return {
        "image": photo(random, 480, 640),
        "mask": blobs(random, 480, 640, "u1"),
        "label": label(random),
        "points": surface(random, 5_000, "f4"),
        "boxes": boxes(random, 30, "f8"),
    }


# A sample's name, and what makes its arrays from a generator of random numbers.
SAMPLES = {
    "image and mask": lambda random: {
        "image": photo(random, 480, 640),
        "mask": blobs(random, 480, 640, "u1", classes=2),
    },
    "small image and label": lambda random: {
        "image": photo(random, 224, 224),
        "label": label(random),
    },
    "large image": lambda random: {"img": photo(random, 1080, 1920)},
    "image f4 and label": lambda random: {
        "image": normalized(photo(random, 512, 512)),
        "label": label(random),
    },
    "image and segmentation i8": lambda random: {
        "image": photo(random, 480, 640),
        "segmentation": blobs(random, 480, 640, "i8"),
    },
    "mask": lambda random: {"mask": blobs(random, 480, 640, "u1")},
    "depth f4, smooth": lambda random: {"depth": smooth(random, 480, 640)},
    "heatmap f8, sparse": lambda random: {"heatmap": sparse(random, (480, 640))},
    "target f8, zeros": lambda random: {"target": np.zeros((480, 640))},
    "features f4": lambda random: {
        "features": random.normal(0, 1, (196, 768)).astype("f4"),
        "label": label(random),
    },
    "features f8": lambda random: {
        "features": random.normal(0, 1, (64, 512)),
        "target": random.normal(0, 1, 64),
    },
    "embedding f4": lambda random: {
        "embedding": random.normal(0, 1, 768).astype("f4"),
        "index": label(random),
    },
    "audio f4, noise": lambda random: {"audio": random.random(160_000, "f4"), "y": label(random)},
    "points f4 and labels": lambda random: {
        "points": surface(random, 16_384, "f4"),
        "normals": random.normal(0, 1, (16_384, 3)).astype("f4"),
        "labels": np.sort(classes(random, 16_384)),
    },
    "points f8": lambda random: {
        "points": surface(random, 60_000, "f8"),
        "intensity": random.random(60_000, "f4"),
    },
    "boxes and labels": lambda random: {
        "boxes": boxes(random, 20, "f4"),
        "labels": classes(random, 20),
        "scores": np.sort(random.random(20, "f4")),
    },
    "tokens i4, padded": lambda random: {
        **padded(random, 64, 512),
        "labels": classes(random, 64, most=2),
    },
    "tokens i4, long": lambda random: {"tokens": tokens(random, 64, 4096)},
    "graph": lambda random: graph(random, 5_000, 40_000),
    "image, mask, label, points and boxes": whole_scene,
}


def make(name):
    """The arrays of a sample by their names."""
    return SAMPLES[name](np.random.default_rng(zlib.crc32(name.encode())))


def path(folder, name, form):
    return pathlib.Path(folder, f"{list(SAMPLES).index(name)}.{form}.npz")


def save(folder, names=SAMPLES, as_well=None):
    """Writes these samples in every form, and each by `as_well(path without ending, arrays)`."""
    import shmarray

    for name in names:
        arrays = make(name)
        np.savez(path(folder, name, STORED), **arrays)
        np.savez_compressed(path(folder, name, DEFLATED), **arrays)
        shmarray.save_npz(path(folder, name, ALIGNED), arrays, align=64)
        if as_well:
            as_well(path(folder, name, STORED).with_suffix(""), arrays)


if __name__ == "__main__":
    save(sys.argv[1])
