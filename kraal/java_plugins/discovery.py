"""Plugin discovery in the JVM of Java plugins: a scan of `plugin.path`, or the cached result of an earlier scan.

A scan reads all jars and instantiates each plugin, which takes seconds or minutes. The result is cached until the files
change. A JVM that receives a cached result, for example after a crash, only loads the classes.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kraal.config.connector.java_plugins import DEFAULT_DISCOVERY, DISCOVERY, PATH
from kraal.config.values import split_list
from kraal.java_plugins.catalog import compute_digest, read_cached_scan, store_scan


def plugin_path(worker: Mapping[str, str]) -> Sequence[str]:
    """Return the elements of `plugin.path` with symbolic links resolved, because the links may change."""
    return [
        str(Path(element).resolve()) if Path(element).is_symlink() else element
        for element in split_list(worker.get(PATH) or "")
    ]


@dataclass(frozen=True, slots=True)
class PluginFiles:
    """The plugin discovery settings of one JVM."""

    properties: Mapping[str, str]
    """`plugin.path` and `plugin.discovery`."""
    scan: str | None = None
    """The JSON of an earlier scan of the same files; None if the JVM must scan."""
    digest: str = ""
    """The digest of the files when the JVM started."""


class Discovery:
    """The source of the discovery settings of new JVMs. Thread-safe."""

    def __init__(self, worker: Mapping[str, str]) -> None:
        """Stat all files in `plugin.path`; `worker` contains the worker's properties."""
        self._mode = worker.get(DISCOVERY) or DEFAULT_DISCOVERY
        self._entries = plugin_path(worker)
        self.digest: Final = compute_digest(self._entries, self._mode)
        """The digest of the files when the worker started."""
        self._scans: dict[str, str] = {}
        """The scans of this worker's JVMs by digest, in case they cannot be cached on disk."""
        self._is_scanned = threading.Event()
        if read_cached_scan(self.digest) is not None:
            self._is_scanned.set()

    def next_files(self) -> PluginFiles:
        """Return the settings of the next JVM. Stats the files again, because they may have changed."""
        digest = compute_digest(self._entries, self._mode)
        properties = {PATH: ",".join(self._entries), DISCOVERY: self._mode}
        return PluginFiles(properties, self._scans.get(digest) or read_cached_scan(digest), digest)

    def store_scan(self, files: PluginFiles, process: Any) -> None:
        """Store the scan of a JVM for later JVMs, unless the JVM reused a stored scan. Raises py4j's errors."""
        if files.scan is None:
            scan = str(process.scan())
            self._scans = {files.digest: scan}
            store_scan(files.digest, scan)
        self._is_scanned.set()

    def wait_for_scan(self) -> None:
        """Wait for the scan of the first JVM, which later JVMs reuse; return immediately if a scan is cached."""
        self._is_scanned.wait()
