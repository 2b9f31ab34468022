"""Commands that the script sends, as files, to its plugins in the workers.

The files of one target (a pipe, or the connector of hanging tasks) have a common prefix:

    PREFIX.sleep              seconds that each call sleeps
    PREFIX.hang               each call hangs until this file is removed
    PREFIX.hang-one           the first call that renames this file to PREFIX.taken hangs until PREFIX.taken is removed
    PREFIX.hanging.PID.ID     a call that hangs in the process PID
    PREFIX.written            a line for each partition of each written batch, with the offsets
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kraal.plugins.api import TopicPartition

COMMANDS_KEY: Final = "chaos.orders"
"""The config key with the prefix of the files."""
_POLL_INTERVAL_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Commands:
    """The commands for one target."""

    prefix: Path

    # --- methods for the script -----------------------------------------------------------------------------

    def sleep(self, seconds: float) -> None:
        """Make each call sleep for `seconds`."""
        self._get_path("sleep").write_text(str(seconds), encoding="ascii")

    def hang(self) -> None:
        """Make each call hang until `release`."""
        self._get_path("hang").touch()

    def hang_one(self) -> None:
        """Make only the next call hang until `release`."""
        self._get_path("hang-one").touch()

    def release(self) -> None:
        """Withdraw all commands."""
        for name in ("sleep", "hang", "hang-one", "taken"):
            self._get_path(name).unlink(missing_ok=True)

    def list_hanging(self) -> list[int]:
        """Return the process id of each hanging call whose process is still running."""
        paths = self.prefix.parent.glob(f"{self.prefix.name}.hanging.*")
        pids = [int(path.name.split(".")[-2]) for path in paths]
        return [pid for pid in pids if Path(f"/proc/{pid}").exists()]

    def list_written(self) -> list[str]:
        """Return the offsets of all written batches as `TOPIC-PARTITION FIRST END`."""
        with suppress(FileNotFoundError):
            return self._get_path("written").read_text(encoding="ascii").splitlines()
        return []

    # --- methods for plugins --------------------------------------------------------------------------------

    def execute(self) -> None:
        """Execute the current commands, if any: first sleep, then hang."""
        with suppress(FileNotFoundError, ValueError):  # the command is withdrawn or not yet written
            time.sleep(float(self._get_path("sleep").read_text(encoding="ascii")))
        command = self._get_path("hang")
        with suppress(FileNotFoundError):
            command = self._get_path("hang-one").rename(self._get_path("taken"))
        if not command.exists():
            return
        marker = self._get_path(f"hanging.{os.getpid()}.{threading.get_ident()}")
        marker.touch()
        try:
            while command.exists():
                time.sleep(_POLL_INTERVAL_S)
        finally:
            marker.unlink(missing_ok=True)

    def record_written(self, ranges: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Record the offsets of a written batch."""
        lines = [
            f"{partition.topic}-{partition.partition} {first} {end}\n"
            for partition, (first, end) in ranges.items()
        ]
        with self._get_path("written").open("a", encoding="ascii") as file:
            file.writelines(sorted(lines))

    def _get_path(self, name: str) -> Path:
        return self.prefix.with_name(f"{self.prefix.name}.{name}")
