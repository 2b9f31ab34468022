"""The worker's properties as a file, for plugins that read the config file named in a Java worker's command line.

Iceberg's sink reads its clients' settings from the file that `sun.java.command` names after the class
ConnectDistributed or ConnectStandalone. On Linux, the file is an anonymous file in memory (memfd), so that secrets
never reach the disk; elsewhere it is a temporary file of mode 0600.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from typing import IO, Final

import javaproperties

_NAME: Final = "worker.properties"
_MAIN_CLASSES: Final = {False: "ConnectDistributed", True: "ConnectStandalone"}


class WorkerFile:
    """The file of one process. Thread-safe."""

    def __init__(self, properties: Mapping[str, str], *, standalone: bool) -> None:
        """Write the properties, with variables resolved. Raises OSError."""
        self._file, path = _create()
        self._file.write(javaproperties.dumps(dict(properties), timestamp=False))
        self._file.flush()
        self.command: Final = f"org.apache.kafka.connect.cli.{_MAIN_CLASSES[standalone]} {path}"
        """A Java worker's command line with the file's path, which is valid in a process that inherits `descriptor`."""

    @property
    def descriptor(self) -> int:
        """The file descriptor, which the process inherits under the same number."""
        return self._file.fileno()

    def close(self) -> None:
        """Close the file. A memfd is freed once the process has also closed it; a temporary file is deleted."""
        self._file.close()


def _create() -> tuple[IO[str], str]:
    if hasattr(os, "memfd_create"):  # Linux
        file = os.fdopen(os.memfd_create(_NAME), "w", encoding="ascii")
        return file, f"/proc/self/fd/{file.fileno()}"
    named_file = tempfile.NamedTemporaryFile("w", encoding="ascii", prefix="kraal-", suffix=f"-{_NAME}")  # noqa: SIM115
    return named_file, named_file.name
