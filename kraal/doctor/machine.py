"""Checks of the machine: memory, open files, disk."""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kraal.doctor.finding import Finding, Level, ok
from kraal.doctor.subject import Subject
from kraal.worker.resources import files_allowed

_MEMINFO = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup")
_MB = 1024 * 1024
_GB = 1024 * _MB
LEAST_MEMORY = 3 * _GB // 2
LEAST_DISK = _GB
LEAST_FILES = 4096


def check_machine(subject: Subject) -> Iterator[Finding]:
    """Check what the operating system gives to a worker."""
    available = available_memory()
    if available is not None:
        yield memory(available)
    yield files(files_allowed(*resource.getrlimit(resource.RLIMIT_NOFILE)))
    yield disk(scratch_of(subject))


def available_memory() -> int | None:
    """Return the bytes of memory that programs can still take; None where the system does not tell.

    A container may take less than the machine has. Source: cgroup-v2 of Linux, where a container sees its own group at
    the root.
    """
    found = [each for each in (_of_machine(), _of_container()) if each is not None]
    return min(found, default=None)


def _of_machine() -> int | None:
    try:
        lines = _MEMINFO.read_text("ascii").splitlines()
    except OSError:
        return None
    found = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), None)
    return None if found is None else int(found) * 1024


def _of_container() -> int | None:
    """Return what is left of the group's limit; None without one. Caches of files can be given up, and do not count."""
    try:
        limit = int((_GROUP / "memory.max").read_text("ascii"))
        used = int((_GROUP / "memory.current").read_text("ascii"))
        kinds = dict(line.split() for line in (_GROUP / "memory.stat").read_text("ascii").splitlines())
    except (OSError, ValueError):  # there is no file, or the limit is the word max
        return None
    return max(0, limit - used + int(kinds.get("inactive_file", 0)))


def memory(available: int) -> Finding:
    """Judge the available memory, in bytes."""
    if available >= LEAST_MEMORY:
        return ok("machine.memory", f"{available // _MB:,} MB of memory are available")
    needed = f"a worker with Spark needs {LEAST_MEMORY // _MB:,} MB"
    what = f"Only {available // _MB:,} MB of memory are available; {needed}"
    fix = "Add memory to the machine or container, or stop other programs."
    return Finding("machine.memory", Level.WARNING, what, fix)


def files(limit: int) -> Finding:
    """Judge the limit of open files that a worker sets for itself when it starts."""
    if limit == resource.RLIM_INFINITY or limit >= LEAST_FILES:
        return ok("machine.files", "Enough files can be open at once")
    what = f"Only {limit} files can be open at once, because the hard limit does not allow more"
    fix = f"Raise the hard limit: `ulimit -Hn {LEAST_FILES}` as root, or LimitNOFILE={LEAST_FILES} in a systemd unit."
    return Finding("machine.files", Level.WARNING, what, fix)


def scratch_of(subject: Subject) -> Path:
    """Return the directory that a worker makes its scratch directory in."""
    config = subject.distributed
    return Path(tempfile.gettempdir()) if config is None or config.data_dir is None else config.data_dir


def disk(directory: Path) -> Finding:
    """Judge the directory, or the nearest one above it that exists."""
    existing = next(each for each in (directory, *directory.absolute().parents) if each.exists())
    if not existing.is_dir():
        what = f"{existing} is not a directory, so scratch files cannot be created in {directory}"
        return Finding("machine.disk", Level.ERROR, what, "Set kraal.data.dir to a directory.")
    if not os.access(existing, os.W_OK | os.X_OK):
        fix = (
            f"Let the worker's user write there: chown, or set kraal.data.dir. Its user id is {os.geteuid()}."
        )
        return Finding("machine.disk", Level.ERROR, f"{existing} is not writable", fix)
    free = shutil.disk_usage(existing).free
    if free >= LEAST_DISK:
        return ok("machine.disk", f"{free // _MB:,} MB are free in {existing}")
    what = f"Only {free // _MB:,} MB are free in {existing}; a worker should have {LEAST_DISK // _MB:,}"
    return Finding("machine.disk", Level.WARNING, what, "Free space, or set kraal.data.dir to another disk.")
