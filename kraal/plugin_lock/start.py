"""Loads the plugin lock at a worker's startup: verifies all files, then loads only these files."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from kraal.config.properties_file import read_properties
from kraal.config.worker.keys import PLUGINS_LOCK
from kraal.core.private_files import find_writable
from kraal.plugin_lock.java import plugin_path, unpack_java
from kraal.plugin_lock.lock import check_files, files_directory, read_lock
from kraal.plugin_lock.wheels import site_directory, unpack

log = logging.getLogger(__name__)

DESCRIPTION: Final = "worker configuration"


def load_worker_plugins(worker_file: Path) -> Sequence[Path]:
    """Load a worker's plugin lock, if any: make its wheels importable, unpack its Java plugins, and return its jars.

    The wheels are appended to `sys.path`, so that they cannot shadow Kraal's own packages. Spark's Python processes use
    the same path. Variables in the path of the lock are not resolved, because their providers may be among the plugins.
    A relative path is relative to the working directory.

    Raises BadRequest if the worker's file cannot be read, PluginLockError if the lock or one of its files is invalid.
    """
    lock = find_lock(read_properties(worker_file, DESCRIPTION))
    return load_plugins(lock) if lock is not None else ()


def find_lock(worker: Mapping[str, str]) -> Path | None:
    """Return the path of the plugin lock in a worker's properties; None if the worker has no lock."""
    path = worker.get(PLUGINS_LOCK, "").strip()
    return Path(path) if path else None


def load_plugins(path: Path) -> Sequence[Path]:
    """Load a plugin lock; see `load_worker_plugins`."""
    path = path.absolute()
    lock = read_lock(path)
    jars = check_files(path, lock.jars)
    wheels = check_files(path, lock.wheels)
    plugins = check_files(path, lock.java)
    site = site_directory(files_directory(path), lock.wheels)
    if wheels:
        unpack(wheels, site)
        if str(site) not in sys.path:
            sys.path.append(str(site))
    unpack_java(files_directory(path), lock.java)
    for warning in find_writable(
        [path, files_directory(path), site, *wheels, *plugins, plugin_path(path).resolve()]
    ):
        log.warning("%s", warning)
    log.info(
        "Verified %d jars, %d wheels and %d Java plugins of plugin lock %s",
        len(jars),
        len(wheels),
        len(plugins),
        path,
    )
    return jars
