"""Files through Kafka into files, what flows through them, and connectors beside them that come and go."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scripts.chaos_run.lines import Delivery, judge, line, number_of
from scripts.harness.lines import size

EVERY_S: Final = 0.25
LINES: Final = 20
"""So many lines come each time, in each pipe."""
LOOK_S: Final = 0.05
SIDE_TOPIC: Final = "side"
SIDES: Final = 4
_SOURCE: Final = "FileStreamSource"
_SINK: Final = "FileStreamSink"


@dataclass(frozen=True, slots=True)
class Pipe:
    """A source, a topic and a sink."""

    name: str
    source_file: Path
    sink_file: Path

    @property
    def configs(self) -> dict[str, dict[str, str]]:
        """The connectors' configs by name, as they are in the end."""
        source = {"connector.class": _SOURCE, "tasks.max": "1", "topic": self.name}
        sink = {"connector.class": _SINK, "tasks.max": "1", "topics": self.name}
        return {
            f"{self.name}-source": source | {"file": str(self.source_file)},
            f"{self.name}-sink": sink | {"file": str(self.sink_file)},
        }

    def delivery(self, written: int) -> Delivery:
        """Read the whole sink file, and judge it."""
        if not self.sink_file.exists():
            return judge(self.name, written, [])
        content = self.sink_file.read_bytes()
        return judge(self.name, written, content.removesuffix(b"\n").split(b"\n") if content else [])

    def last(self) -> int:
        """Return the number of the sink file's last whole line, -1 when it has none."""
        if not self.sink_file.exists():
            return -1
        with self.sink_file.open("rb") as file:
            file.seek(max(0, size(self.sink_file) - 1_000))
            lines = file.read().split(b"\n")[:-1]
        number = number_of(self.name, lines[-1]) if lines else None
        return -1 if number is None else number


def side_config(number: int, directory: Path, variant: int) -> dict[str, str]:
    """Return the config of a side connector; by turns a source of few lines, and a sink of the first pipe's."""
    config = {"tasks.max": str(1 + variant % 2)}
    if number % 2:
        return config | {
            "connector.class": _SINK,
            "file": str(directory / f"side-{number}.out"),
            "topics": "pipe-0",
        }
    return config | {"connector.class": _SOURCE, "file": str(directory / "side.in"), "topic": SIDE_TOPIC}


class Feeder:
    """A thread that lets the source files grow, and watches the sink files."""

    def __init__(self, pipes: Sequence[Pipe]) -> None:
        """Make the source files; nothing is in them yet."""
        self._pipes = pipes
        for pipe in pipes:
            pipe.source_file.touch()
        self.written = 0
        """Lines in each source file."""
        self.standstill_s = 0.0
        """The longest time without anything new in some sink file, while lines came."""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Append no more."""
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        sizes = {pipe: size(pipe.sink_file) for pipe in self._pipes}
        grew = {pipe: time.monotonic() for pipe in self._pipes}
        due = time.monotonic()
        while not self._ended.wait(LOOK_S):
            now = time.monotonic()
            for pipe in self._pipes:
                if (found := size(pipe.sink_file)) != sizes[pipe]:
                    sizes[pipe], grew[pipe] = found, now
                self.standstill_s = max(self.standstill_s, now - grew[pipe])
            if now >= due:
                due = now + EVERY_S
                self._write()

    def _write(self) -> None:
        numbers = range(self.written, self.written + LINES)
        for pipe in self._pipes:
            with pipe.source_file.open("ab") as file:
                file.write(b"".join(line(pipe.name, number) for number in numbers))
        self.written += LINES
