"""The machine on which the figures were measured, and the versions of everything on it."""

import os
import pathlib
import platform
import subprocess
import tomllib

import memory
import peers


def facts():
    shared = os.statvfs(memory.SHARED)
    return {
        "processor": first("/proc/cpuinfo", "model name"),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "shared_memory_bytes": shared.f_blocks * shared.f_frsize,
        "kernel": platform.release(),
        "virtual": "hypervisor" in (first("/proc/cpuinfo", "flags") or ""),
        "huge_pages": text("/sys/kernel/mm/transparent_hugepage/shmem_enabled"),
        "load": os.getloadavg(),
    }


def versions():
    found = {name: peers.version(package) for name, package in peers.NAMES.values() if package}
    others = (
        "iceoryx2",
        "kickmsg",
        "pyzmq",
        "spdl-io",
        "safetensors",
        "numpy",
        "xarray",
        "pandas",
        "distributed",
    )
    return {
        "Python": platform.python_version(),
        "Ruby": line("ruby", "-e", "print RUBY_VERSION"),
        "C compiler": line("gcc", "-dumpfullversion"),
        "commit": line("git", "rev-parse", "--short", "HEAD"),
        **found,
        **{name: peers.version(name) for name in others},
        **crates(),
    }


def crates():
    """The crates that `channel` measures, in the versions that it asks for."""
    file = pathlib.Path(__file__).parent / "programs/messages/Cargo.toml"
    asked = tomllib.loads(file.read_text())["dependencies"]
    return {
        f"crate {name}": of["version"].lstrip("=") for name, of in asked.items() if "optional" in of
    }


def text(path):
    try:
        return pathlib.Path(path).read_text().strip()
    except OSError:
        return None


def first(path, key):
    for row in (text(path) or "").splitlines():
        name, _, value = row.partition(":")
        if name.strip() == key:
            return value.strip()
    return None


def line(*command):
    here = pathlib.Path(__file__).parent
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=here)
        return done.stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
