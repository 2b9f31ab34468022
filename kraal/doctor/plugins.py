"""Checks of a worker's plugins: its lock, and the entries of `plugin.path`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kraal.config.connector.java_plugins import DEFAULT_DISCOVERY, DISCOVERY, PATH
from kraal.config.values import split_list
from kraal.core.errors import KraalError
from kraal.doctor.finding import Finding, Level, ok
from kraal.doctor.plugin_copies import check_jars
from kraal.doctor.subject import Subject
from kraal.java_plugins.catalog import digest_of, peek
from kraal.java_plugins.discovery import plugin_path
from kraal.plugin_lock.lock import check_files, read_lock
from kraal.plugin_lock.start import lock_of


def check_plugins(subject: Subject) -> Iterator[Finding]:
    """Check what the worker's file names; loads no plugin."""
    lock = lock_of(subject.raw)
    if lock is not None:
        yield locked(lock.absolute())
    for entry in split_list(subject.raw.get(PATH) or ""):
        if Path(entry).exists():
            yield ok("plugins.path", f"{entry} exists")
        else:
            what = f"{entry} in {PATH} does not exist, so its plugins are missing"
            fix = "Correct the entry: a directory that contains plugins, one directory or jar each."
            yield Finding("plugins.path", Level.WARNING, what, fix)
    entries = plugin_path(subject.raw)
    if entries:
        catalog = peek(digest_of(entries, subject.raw.get(DISCOVERY) or DEFAULT_DISCOVERY))
        yield from check_jars(entries, catalog or [])


def locked(path: Path) -> Finding:
    """Judge a lock and its files."""
    try:
        lock = read_lock(path)
        found = sum(len(check_files(path, files)) for files in (lock.jars, lock.wheels, lock.java))
    except KraalError as exc:
        return Finding("plugins.lock", Level.ERROR, str(exc), f"Run `kraal plugins lock --lock {path}`.")
    return ok("plugins.lock", f"{path} is valid, and so are its {found} files")
