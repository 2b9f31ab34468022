"""Orders from the script to its plugins, as files: the plugins run in the workers, and the script does not.

The files of one place (a pipe, or the connector of hanging tasks) have a common prefix:

    PLACE.sleep              seconds that each call sleeps
    PLACE.hang               each call hangs until this file is removed
    PLACE.hang-one           the first call that renames this file to PLACE.taken hangs until that is removed
    PLACE.hanging.PID.ID     a call that hangs in the process PID
    PLACE.written            a line for each batch that was written: the offsets, by partition
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

ORDERS: Final = "chaos.orders"
"""The config key with the prefix of the files."""
_POLL_INTERVAL_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Orders:
    """The orders for one place."""

    prefix: Path

    # --- the script's side ----------------------------------------------------------------------------------

    def sleep(self, seconds: float) -> None:
        """Have each call sleep first."""
        self._file("sleep").write_text(str(seconds), encoding="ascii")

    def hang(self) -> None:
        """Have each call hang until `release`."""
        self._file("hang").touch()

    def hang_one(self) -> None:
        """Have the next call hang until `release`, and no other."""
        self._file("hang-one").touch()

    def release(self) -> None:
        """Withdraw all orders."""
        for name in ("sleep", "hang", "hang-one", "taken"):
            self._file(name).unlink(missing_ok=True)

    def hanging(self) -> list[int]:
        """Return the process of each call that hangs; a process that has ended hangs no more."""
        paths = self.prefix.parent.glob(f"{self.prefix.name}.hanging.*")
        pids = [int(path.name.split(".")[-2]) for path in paths]
        return [pid for pid in pids if Path(f"/proc/{pid}").exists()]

    def written(self) -> list[str]:
        """Return the offsets of all batches that were written, as `TOPIC-PARTITION FIRST END`."""
        with suppress(FileNotFoundError):
            return self._file("written").read_text(encoding="ascii").splitlines()
        return []

    # --- the plugin's side ----------------------------------------------------------------------------------

    def obey(self) -> None:
        """Sleep or hang, if that was ordered."""
        with suppress(FileNotFoundError, ValueError):  # withdrawn, or not written yet
            time.sleep(float(self._file("sleep").read_text(encoding="ascii")))
        order = self._file("hang")
        with suppress(FileNotFoundError):
            order = self._file("hang-one").rename(self._file("taken"))
        if not order.exists():
            return
        mark = self._file(f"hanging.{os.getpid()}.{threading.get_ident()}")
        mark.touch()
        try:
            while order.exists():
                time.sleep(_POLL_INTERVAL_S)
        finally:
            mark.unlink(missing_ok=True)

    def wrote(self, ranges: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Note the offsets of a batch that was written."""
        lines = [f"{place.topic}-{place.partition} {first} {end}\n" for place, (first, end) in ranges.items()]
        with self._file("written").open("a", encoding="ascii") as file:
            file.writelines(sorted(lines))

    def _file(self, name: str) -> Path:
        return self.prefix.with_name(f"{self.prefix.name}.{name}")
