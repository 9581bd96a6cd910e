"""The peers that are measured, one module each, with a class `Peer`.

The README says what a new one needs.
"""

import importlib
import importlib.metadata
import importlib.util

OURS = "ours"
# In the order of tables and pictures: name, what it is called there, the distribution (None:
# Python's own).
NAMES = {
    OURS: ("shmarray", "shmarray-numpy"),
    "ray": ("Ray", "ray"),
    "pytorch": ("torch.multiprocessing", "torch"),
    "sharedarray": ("SharedArray", "SharedArray"),
    "pickle5": ("SharedMemory + pickle 5", None),
    "memmap": ("joblib", "joblib"),
    "pipe": ("multiprocessing", None),
}
# Libraries that load files, for the family npy: the name in tables, and the distribution.
LOADERS = {"spdl.io": "spdl-io", "safetensors": "safetensors", "torch.load": "torch"}
# Libraries that send messages from Python, for the family channel.
MESSAGES = {"iceoryx2 in Python": "iceoryx2", "kickmsg": "kickmsg", "ZeroMQ in Python": "pyzmq"}


def label(name):
    return NAMES[name][0] if name in NAMES else name


def make(name):
    return importlib.import_module(f"peers.{name}").Peer()


def version(distribution):
    """The version of a distribution, or None if it is not installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def present():
    return [name for name, (_, package) in NAMES.items() if package is None or version(package)]


def absent():
    """Why a peer has no figures."""
    names = [label(name) for name in NAMES if name not in present()]
    others = LOADERS | MESSAGES
    names += [name for name, package in others.items() if not version(package)]
    return dict.fromkeys(names, "not installed")
