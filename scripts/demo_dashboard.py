"""The connectors that the demo's dashboard shows: a source and a sink that move lines, and a sink that fails."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scripts.harness.lines import LINE_BYTES
from scripts.harness.processes import wait_until
from scripts.harness.show import say
from scripts.harness.workers import START_TIMEOUT_S, Worker

FAILING_SINK: Final = "broken-sink"
_LINES_PER_STEP: Final = 20


@dataclass(frozen=True, slots=True)
class DashboardConnectors:
    """The flow of lines and the failing sink on a running worker."""

    worker: Worker
    topic: str
    source_file: Path
    missing_directory: Path
    """Directory of the failing sink's file; it does not exist."""

    def create(self) -> None:
        """Create the failing sink and print the dashboard's address. Raises ScriptFailed if the sink does not fail."""
        config = {
            "connector.class": "FileStreamSink",
            "tasks.max": "1",
            "file": str(self.missing_directory / "lines.txt"),
            "topics": self.topic,
        }
        self.worker.rest.create(FAILING_SINK, config)
        wait_until(
            f"{FAILING_SINK} had failed",
            self._has_failed,
            timeout_s=START_TIMEOUT_S,
            program=self.worker.process,
        )
        say(f"The dashboard: {self.worker.rest.url}/ui/")
        say(
            f"  Lines keep flowing through file-source and file-sink. {FAILING_SINK} fails,"
            " because a directory is missing:"
        )
        say(f"  mkdir {self.missing_directory}   # then restart {FAILING_SINK} in the dashboard")

    def append_lines(self) -> None:
        """Append a few lines to the source file."""
        with self.source_file.open("a", encoding="ascii") as file:
            file.write(("." * (LINE_BYTES - 1) + "\n") * _LINES_PER_STEP)

    def _has_failed(self) -> bool:
        status = self.worker.rest.status(FAILING_SINK)
        return status is not None and [task["state"] for task in status["tasks"]] == ["FAILED"]
