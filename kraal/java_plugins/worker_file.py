"""The worker's properties as a file, for plugins that look for the one in the command line of a Java worker.

Iceberg's sink takes its clients' settings from there: it reads the file that `sun.java.command` names after the class
ConnectDistributed or ConnectStandalone. On Linux the file is in memory and has no name, so that secrets reach no disk
and nothing is left behind; elsewhere it is a temporary file of mode 0600.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from typing import IO, Final

import javaproperties

_NAME: Final = "worker.properties"
_MAINS: Final = {False: "ConnectDistributed", True: "ConnectStandalone"}


class WorkerFile:
    """One file, for one process. Any thread."""

    def __init__(self, properties: Mapping[str, str], *, standalone: bool) -> None:
        """Write the properties, with variables resolved. Raises OSError."""
        self._file, path = _create()
        self._file.write(javaproperties.dumps(dict(properties), timestamp=False))
        self._file.flush()
        self.command: Final = f"org.apache.kafka.connect.cli.{_MAINS[standalone]} {path}"
        """A Java worker's command line with this file, whose path is valid where `descriptor` is inherited."""

    @property
    def descriptor(self) -> int:
        """The file descriptor that the process inherits, under the same number."""
        return self._file.fileno()

    def close(self) -> None:
        """Remove the file, unless the process still has it."""
        self._file.close()


def _create() -> tuple[IO[str], str]:
    if hasattr(os, "memfd_create"):  # Linux
        file = os.fdopen(os.memfd_create(_NAME), "w", encoding="ascii")
        return file, f"/proc/self/fd/{file.fileno()}"
    named = tempfile.NamedTemporaryFile("w", encoding="ascii", prefix="kraal-", suffix=f"-{_NAME}")  # noqa: SIM115
    return named, named.name
