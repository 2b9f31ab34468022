"""What Kraal remembers of a broker that it started, so that it never ends a process that is not that broker.

A pid alone is not enough: it may belong to another process by now. So the record also holds when the process
started, and the process must still have our server.properties on its command line.

Shape of the file `kraal-broker.json` in the data directory: `{"pid", "started", "port"}`; started is seconds
since the epoch, as psutil gives it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from kraal.embedded.errors import BrokerError

if TYPE_CHECKING:
    from collections.abc import Callable

NAME = "kraal-broker.json"
CLOCK_STEP_S = 2.0
"""How far a start time may seem to move: Linux derives it from a boot time that follows clock corrections."""


@dataclass(frozen=True, slots=True)
class Record:
    """One started broker."""

    pid: int
    started: float
    port: int

    def write(self, data_dir: Path) -> None:
        """Put the record into `data_dir`, whole or not at all."""
        scratch = data_dir / f"{NAME}.new"
        scratch.write_text(json.dumps(asdict(self)), encoding="ascii")
        scratch.replace(data_dir / NAME)

    def process(
        self, data_dir: Path, find: Callable[[int], psutil.Process] = psutil.Process
    ) -> psutil.Process | None:
        """Return the recorded process if it still is the one that was started, else None."""
        try:
            process = find(self.pid)
            if process.status() == psutil.STATUS_ZOMBIE:
                return None
            same_start = abs(process.create_time() - self.started) <= CLOCK_STEP_S
            same_work = str(data_dir / "server.properties") in process.cmdline()
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            return None
        return process if same_start and same_work else None


def read(data_dir: Path) -> Record | None:
    """Return the record in `data_dir`, None without one. Raises BrokerError when it is not readable."""
    path = data_dir / NAME
    try:
        fields = json.loads(path.read_text(encoding="ascii"))
        return Record(pid=int(fields["pid"]), started=float(fields["started"]), port=int(fields["port"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise BrokerError(
            f"{path} cannot be read ({exc}), so no process is touched; remove it by hand."
        ) from exc


def forget(data_dir: Path) -> None:
    """Remove the record."""
    (data_dir / NAME).unlink(missing_ok=True)
