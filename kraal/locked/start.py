"""What a worker does with its lock of plugins as it starts: check every file, then load from them and nothing else."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kraal.config.properties import read_properties
from kraal.config.worker_keys import PLUGINS_LOCK
from kraal.locked.lock import check_files, files_of, read_lock
from kraal.locked.wheels import site_of, unpack

log = logging.getLogger(__name__)

WHAT: Final = "worker configuration"


def jars_of_worker(worker_file: Path) -> Sequence[Path]:
    """Make the wheels of a worker's lock importable; return its jars, for Spark. Without a lock: nothing happens.

    The wheels come last in `sys.path`, so none of them stands in the way of Kraal's own packages; Spark's Python
    processes get the same path. The key is read as it is written: variables are not resolved, for their providers
    may be among the plugins. A relative path begins at the working directory.

    Raises BadRequest when the worker's file cannot be read, PluginsUnfit when the lock or a file is not as it must be.
    """
    named = read_properties(worker_file, WHAT).get(PLUGINS_LOCK, "").strip()
    return load_plugins(Path(named)) if named else ()


def load_plugins(path: Path) -> Sequence[Path]:
    """Do the work of `jars_of_worker` for one lock."""
    path = path.absolute()
    lock = read_lock(path)
    jars = check_files(path, lock.jars)
    wheels = check_files(path, lock.wheels)
    if wheels:
        site = site_of(files_of(path), lock.wheels)
        unpack(wheels, site)
        if str(site) not in sys.path:
            sys.path.append(str(site))
    log.info("%s: %d jars and %d wheels are what was locked", path, len(jars), len(wheels))
    return jars
