"""How the process finds the plugins in `plugin.path`: as the worker's file says, or faster where that finds the same.

`hybrid_warn`, the default, looks through all classes of all jars and takes ten times as long as `service_load`, which
reads manifests. If the manifests were found to name all plugins, later processes read only them, as long as the files
are the same; also those that replace one that has ended, so that tasks continue sooner.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kraal.config.connector.java_plugins import DEFAULT_DISCOVERY, DISCOVERY, PATH
from kraal.config.values import split_list
from kraal.java_plugins.catalog import digest_of, is_marked, mark

_MANIFESTS: Final = "service_load"
_HYBRID: Final = ("hybrid_warn", "hybrid_fail")


def plugin_path(worker: Mapping[str, str]) -> Sequence[str]:
    """Return the entries of `plugin.path`, with links followed: they may lead elsewhere later."""
    return [
        str(Path(each).resolve()) if Path(each).is_symlink() else each
        for each in split_list(worker.get(PATH) or "")
    ]


class Discovery:
    """The properties `plugin.path` and `plugin.discovery` of the next process. Any thread."""

    def __init__(self, worker: Mapping[str, str]) -> None:
        """`worker`: the worker's properties. Reads the names of all files in `plugin.path`."""
        self._mode = worker.get(DISCOVERY) or DEFAULT_DISCOVERY
        self._entries = plugin_path(worker)
        self._is_hybrid = self._mode.lower() in _HYBRID
        self.digest: Final = digest_of(self._entries, self._mode)
        """Of all that decided which plugins there were when the worker started."""
        self._files = self.digest
        """The digest of the files that the last process was given."""
        self._manifests_suffice_for = self.digest if is_marked(self.digest) else ""
        """The digest of files whose manifests name all plugins, also if that cannot be cached."""
        self._is_known = threading.Event()
        if not self._is_hybrid or self._manifests_suffice_for:
            self._is_known.set()

    @property
    def properties(self) -> dict[str, str]:
        """What the next process is given. Reads the names of all files again: some may have been replaced."""
        self._files = digest_of(self._entries, self._mode)
        if self._is_hybrid and is_marked(self._files):
            self._manifests_suffice_for = self._files
        mode = _MANIFESTS if self._manifests_suffice_for == self._files else self._mode
        return {PATH: ",".join(self._entries), DISCOVERY: mode}

    def scanned(self, process: Any) -> None:
        """Ask a process that has found all plugins whether manifests are enough from now on. Raises py4j's errors."""
        if self._is_hybrid and self._manifests_suffice_for != self._files and process.hasAllManifests():
            self._manifests_suffice_for = self._files
            mark(self._files)
        self._is_known.set()

    def wait(self) -> None:
        """Wait until a first process has scanned, if it is not known yet whether manifests are enough."""
        self._is_known.wait()
