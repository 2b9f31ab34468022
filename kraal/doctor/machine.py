"""Checks of the machine: memory, open files, disk, Java."""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kraal.doctor.finding import Finding, Level, passed
from kraal.doctor.subject import Subject
from kraal.jars.class_archive import existing_archive
from kraal.jars.errors import JavaMissing
from kraal.jars.java import find_java
from kraal.worker.resources import open_files_limit

_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")
_MB = 1024 * 1024
_GB = 1024 * _MB
MIN_MEMORY_BYTES = 3 * _GB // 2
MIN_DISK_BYTES = _GB
MIN_FILES = 4096


def check_machine(subject: Subject) -> Iterator[Finding]:
    """Check the resources of the machine."""
    available_bytes = available_memory()
    if available_bytes is not None:
        yield check_memory(available_bytes)
    yield check_open_files(open_files_limit(*resource.getrlimit(resource.RLIMIT_NOFILE)))
    yield check_disk(scratch_parent(subject))


def available_memory() -> int | None:
    """Return the available memory in bytes; None if the system does not report it.

    The limit of a container may be lower than the machine's memory. Source: cgroup-v2 of Linux, where a container sees
    its own group at the root.
    """
    sizes = [size for size in (_machine_memory(), _container_memory()) if size is not None]
    return min(sizes, default=None)


def _machine_memory() -> int | None:
    try:
        lines = _MEMINFO.read_text("ascii").splitlines()
    except OSError:
        return None
    available_kb = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), None)
    return None if available_kb is None else int(available_kb) * 1024


def _container_memory() -> int | None:
    """Return the unused memory within the cgroup's limit, not counting reclaimable caches; None without a limit."""
    try:
        limit = int((_CGROUP / "memory.max").read_text("ascii"))
        used_bytes = int((_CGROUP / "memory.current").read_text("ascii"))
        memory_stats = dict(
            line.split() for line in (_CGROUP / "memory.stat").read_text("ascii").splitlines()
        )
    except (OSError, ValueError):  # the file does not exist, or the limit is `max`
        return None
    return max(0, limit - used_bytes + int(memory_stats.get("inactive_file", 0)))


def check_memory(available_bytes: int) -> Finding:
    """Check whether the available memory suffices for a worker with Spark."""
    if available_bytes >= MIN_MEMORY_BYTES:
        return passed("machine.memory", f"{available_bytes // _MB:,} MB of memory are available")
    requirement = f"a worker with Spark needs {MIN_MEMORY_BYTES // _MB:,} MB"
    what = f"Only {available_bytes // _MB:,} MB of memory are available; {requirement}"
    fix = "Add memory to the machine or container, or stop other programs."
    return Finding("machine.memory", Level.WARNING, what, fix)


def check_open_files(limit: int) -> Finding:
    """Check the limit of open files that a worker sets at startup."""
    if limit == resource.RLIM_INFINITY or limit >= MIN_FILES:
        return passed("machine.files", "The limit of open files is sufficient")
    what = f"The hard limit permits only {limit} open files"
    fix = f"Raise the hard limit: `ulimit -Hn {MIN_FILES}` as root, or LimitNOFILE={MIN_FILES} in a systemd unit."
    return Finding("machine.files", Level.WARNING, what, fix)


def scratch_parent(subject: Subject) -> Path:
    """Return the directory for a distributed worker's scratch files, or else the system's temporary directory."""
    config = subject.distributed
    return Path(tempfile.gettempdir()) if config is None or config.data_dir is None else config.data_dir


def check_disk(directory: Path) -> Finding:
    """Check that scratch files can be created in a directory, and that there is enough free space."""
    existing_path = next(path for path in (directory, *directory.absolute().parents) if path.exists())
    if not existing_path.is_dir():
        what = f"{existing_path} is not a directory, so scratch files cannot be created in {directory}"
        return Finding("machine.disk", Level.ERROR, what, "Set kraal.data.dir to a directory.")
    if not os.access(existing_path, os.W_OK | os.X_OK):
        fix = f"Let the worker's user (id {os.geteuid()}) write to the directory (chown), or set kraal.data.dir."
        return Finding("machine.disk", Level.ERROR, f"{existing_path} is not writable", fix)
    free_bytes = shutil.disk_usage(existing_path).free
    if free_bytes >= MIN_DISK_BYTES:
        return passed("machine.disk", f"{free_bytes // _MB:,} MB are free in {existing_path}")
    what = (
        f"Only {free_bytes // _MB:,} MB are free in {existing_path}; "
        f"a worker needs at least {MIN_DISK_BYTES // _MB:,} MB"
    )
    return Finding("machine.disk", Level.WARNING, what, "Free space, or set kraal.data.dir to another disk.")


def check_java() -> Iterator[Finding]:
    """Check the Java installation that would run Spark."""
    try:
        java = find_java()
    except JavaMissing as exc:
        yield Finding("java.version", Level.ERROR, str(exc), exc.hint)
        return
    yield passed("java.version", f"{java} can run Spark")
    archive = existing_archive()
    if archive is None:
        what = "There is no archive of Spark's classes for this Java, so Spark takes twice as long to start"
        yield Finding("java.prepared", Level.HINT, what, "Run `kraal prepare` once on this machine.")
    else:
        yield passed("java.prepared", f"Spark's classes are archived in {archive}")
