"""The connectors that the demo leaves running for its dashboard: a continuing flow and a failed task."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scripts.harness.lines import LINE_BYTES
from scripts.harness.processes import wait_until
from scripts.harness.show import say
from scripts.harness.workers import START_TIMEOUT_S, Worker

BROKEN: Final = "broken-sink"
_LINES_EACH: Final = 20


@dataclass(frozen=True, slots=True)
class Leftovers:
    """The continuing flow and the failing sink on a running worker."""

    worker: Worker
    topic: str
    source_file: Path
    missing: Path
    """The directory of the failing sink's file; it does not exist."""

    def create(self) -> None:
        """Create the failing sink and print the dashboard's address. Raises ScriptFailed if the sink does not fail."""
        config = {
            "connector.class": "FileStreamSink",
            "tasks.max": "1",
            "file": str(self.missing / "lines.txt"),
            "topics": self.topic,
        }
        self.worker.rest.create(BROKEN, config)
        wait_until(
            f"{BROKEN} had failed", self._has_failed, timeout_s=START_TIMEOUT_S, program=self.worker.process
        )
        say(f"The dashboard: {self.worker.rest.url}/ui/")
        say(
            f"  Lines keep flowing through file-source and file-sink. {BROKEN} fails, because a directory is missing:"
        )
        say(f"  mkdir {self.missing}   # then restart it there")

    def append_lines(self) -> None:
        """Append some lines to the source file."""
        with self.source_file.open("a", encoding="ascii") as file:
            file.write(("." * (LINE_BYTES - 1) + "\n") * _LINES_EACH)

    def _has_failed(self) -> bool:
        status = self.worker.rest.status(BROKEN)
        return status is not None and [each["state"] for each in status["tasks"]] == ["FAILED"]
