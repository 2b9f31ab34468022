"""How the process finds the plugins in `plugin.path`: as the worker's file configures, or from an earlier scan.

A scan looks through all jars, creates each plugin, and takes seconds or minutes. Its result is cached as long as the
files are the same: a process that gets it only loads the classes, also one that replaces a process that has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kraal.config.connector.java_plugins import DEFAULT_DISCOVERY, DISCOVERY, PATH
from kraal.config.values import split_list
from kraal.java_plugins.catalog import cached_scan, compute_digest, store_scan


def plugin_path(worker: Mapping[str, str]) -> Sequence[str]:
    """Return the entries of `plugin.path`, with links followed: they may lead elsewhere later."""
    return [
        str(Path(each).resolve()) if Path(each).is_symlink() else each
        for each in split_list(worker.get(PATH) or "")
    ]


@dataclass(frozen=True, slots=True)
class PluginFiles:
    """The plugins of one process."""

    properties: Mapping[str, str]
    """`plugin.path` and `plugin.discovery`."""
    scan: str | None = None
    """The JSON of an earlier scan of the same files; None: the process scans."""
    digest: str = ""
    """Of the files, when the process started."""


class Discovery:
    """The plugins of the next process. Any thread."""

    def __init__(self, worker: Mapping[str, str]) -> None:
        """`worker`: the worker's properties. Reads the names of all files in `plugin.path`."""
        self._mode = worker.get(DISCOVERY) or DEFAULT_DISCOVERY
        self._entries = plugin_path(worker)
        self.digest: Final = compute_digest(self._entries, self._mode)
        """Of all that decided which plugins there were when the worker started."""
        self._scans: dict[str, str] = {}
        """The scans of this worker's processes by digest, also if they cannot be cached."""
        self._is_scanned = threading.Event()
        if cached_scan(self.digest) is not None:
            self._is_scanned.set()

    def next_files(self) -> PluginFiles:
        """Return the properties and files for the next process. Lists the files again: some may have been replaced."""
        digest = compute_digest(self._entries, self._mode)
        properties = {PATH: ",".join(self._entries), DISCOVERY: self._mode}
        return PluginFiles(properties, self._scans.get(digest) or cached_scan(digest), digest)

    def store_scan(self, files: PluginFiles, process: Any) -> None:
        """Store a process's scan for later ones, unless the process itself uses a stored one. Raises py4j's errors."""
        if files.scan is None:
            scan = str(process.scan())
            self._scans = {files.digest: scan}
            store_scan(files.digest, scan)
        self._is_scanned.set()

    def wait(self) -> None:
        """Wait until a first process has scanned, so that others need not, unless there is a cached scan."""
        self._is_scanned.wait()
