"""Checks of a worker's plugins: the plugin lock, and the entries of `plugin.path`."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from kraal.config.connector.java_plugins import DEFAULT_DISCOVERY, DISCOVERY, OPTIONS, PATH
from kraal.config.values import split_list
from kraal.core.errors import KraalError
from kraal.doctor.finding import Finding, Level, passed
from kraal.doctor.plugin_copies import check_jars
from kraal.doctor.subject import Subject
from kraal.jars.errors import JavaMissing
from kraal.jars.java import find_java
from kraal.java_plugins.catalog import compute_digest, peek_cached
from kraal.java_plugins.discovery import plugin_path
from kraal.java_plugins.parts import list_options
from kraal.plugin_lock.lock import check_files, read_lock
from kraal.plugin_lock.start import find_lock

_ARCHIVE_SUFFIXES: Final = (".jar", ".zip")
_JVM_TIMEOUT_S: Final = 30


def check_plugins(subject: Subject) -> Iterator[Finding]:
    """Check the plugin settings in the worker's properties file without loading plugins."""
    lock = find_lock(subject.raw)
    if lock is not None:
        yield check_lock(lock.absolute())
    for entry in split_list(subject.raw.get(PATH) or ""):
        yield check_entry(Path(entry))
    entries = plugin_path(subject.raw)
    if entries:
        yield from check_jvm_start(list_options(subject.raw, is_shared=False))
        catalog = peek_cached(compute_digest(entries, subject.raw.get(DISCOVERY) or DEFAULT_DISCOVERY))
        yield from check_jars(entries, catalog or [])


def check_entry(entry: Path) -> Finding:
    """Check an entry of `plugin.path`. Source: PluginUtils.pluginLocations (Kafka 4.4.0)."""
    fix = "Set the entry to a directory of plugins (directories, .jar or .zip files), or to one .jar or .zip file."
    try:
        if not entry.exists():
            what = f"{entry} in {PATH} does not exist, so its plugins are missing"
        elif entry.is_dir() and not any(entry.iterdir()):
            what = f"The directory {entry} in {PATH} is empty, so it has no plugins"
        elif not entry.is_dir() and entry.suffix.lower() not in _ARCHIVE_SUFFIXES:
            what = f"{entry} in {PATH} is neither a directory nor a .jar or .zip file, so it is ignored"
        else:
            return passed("plugins.path", f"{entry} exists")
    except OSError as exc:
        what = f"{entry} in {PATH} cannot be read: {exc.strerror or exc}"
        fix = "Let the worker's user read the directory and its parent directories."
    return Finding("plugins.path", Level.WARNING, what, fix)


def check_jvm_start(options: Sequence[str]) -> Iterator[Finding]:
    """Start Java with the options of the plugins' JVM, without plugins; a missing Java is reported by another check."""
    fix = f"Correct {OPTIONS}, or free memory: a JVM also fails if it cannot reserve its heap."
    try:
        command = [str(find_java()), *options, "-version"]
        completed = subprocess.run(
            command, capture_output=True, text=True, timeout=_JVM_TIMEOUT_S, check=False
        )
    except JavaMissing:
        return
    except (OSError, subprocess.TimeoutExpired) as exc:
        yield Finding("plugins.jvm", Level.ERROR, f"The JVM of Java plugins cannot start: {exc}", fix)
        return
    if completed.returncode:
        lines = (completed.stdout + completed.stderr).strip().splitlines() or [
            f"exit code {completed.returncode}"
        ]
        yield Finding("plugins.jvm", Level.ERROR, f"The JVM of Java plugins cannot start: {lines[0]}", fix)
    else:
        yield passed("plugins.jvm", "The JVM of Java plugins can start")


def check_lock(path: Path) -> Finding:
    """Check a plugin lock and its files."""
    try:
        lock = read_lock(path)
        count = sum(len(check_files(path, files)) for files in (lock.jars, lock.wheels, lock.java))
    except KraalError as exc:
        return Finding("plugins.lock", Level.ERROR, str(exc), f"Run `kraal plugins lock --lock {path}`.")
    return passed("plugins.lock", f"{path} is valid, and so are its {count} files")
