"""Record of a broker that Kraal started, so that Kraal never stops another process.

A pid is not sufficient, because another process may reuse it. Therefore the record also contains the start time, and
the command line of the process must contain the broker's server.properties.

Format of the file `kraal-broker.json` in the data directory: `{"pid", "started", "port"}`, where `started` is in
seconds since the epoch.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from kraal.jars.errors import BrokerError

NAME = "kraal-broker.json"
CLOCK_STEP_S = 2.0
"""Tolerance of the start time, which Linux computes from a boot time that changes with clock corrections."""


@dataclass(frozen=True, slots=True)
class Record:
    """The record of a broker."""

    pid: int
    started: float
    port: int

    def write(self, data_dir: Path) -> None:
        """Write the record to `data_dir` atomically."""
        temporary = data_dir / f"{NAME}.new"
        temporary.write_text(json.dumps(asdict(self)), encoding="ascii")
        temporary.replace(data_dir / NAME)

    def process(self, data_dir: Path) -> psutil.Process | None:
        """Return the process if it is still the recorded broker, otherwise None."""
        try:
            process = psutil.Process(self.pid)
            if process.status() == psutil.STATUS_ZOMBIE:
                return None
            has_same_start = abs(process.create_time() - self.started) <= CLOCK_STEP_S
            command = process.cmdline()
            # Empty while a new process is replaced by Java (exec); zombies were excluded above.
            has_same_command = not command or str(data_dir / "server.properties") in command
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            return None
        return process if has_same_start and has_same_command else None


def read(data_dir: Path) -> Record | None:
    """Return the record in `data_dir`, or None if it does not exist. Raises BrokerError if it cannot be read."""
    path = data_dir / NAME
    try:
        fields = json.loads(path.read_text(encoding="ascii"))
        return Record(pid=int(fields["pid"]), started=float(fields["started"]), port=int(fields["port"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise BrokerError(
            f"Cannot read {path} ({exc}), so the broker process is unknown; remove the file manually."
        ) from exc


def delete(data_dir: Path) -> None:
    """Delete the record in `data_dir`."""
    (data_dir / NAME).unlink(missing_ok=True)
