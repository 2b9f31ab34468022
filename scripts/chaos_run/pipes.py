"""The pipes (source file, topic, sink file), the feeder of their lines, and temporary side connectors."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Final

from scripts.chaos_run.kinds.install import FILE_SINK, FILES_SINK
from scripts.chaos_run.kinds.once import list_range_files, read_files
from scripts.chaos_run.kinds.orders import COMMANDS_KEY, Commands
from scripts.chaos_run.lines import Delivery, check_delivery, make_line, parse_number
from scripts.chaos_run.tables import LineTable
from scripts.harness.lines import size

APPEND_INTERVAL_S: Final = 0.25
LINES: Final = 20
"""Number of lines appended to each pipe at a time."""
SMALL_LINES: Final = 3
"""Number of lines appended at a time to pipes with a small flow."""
POLL_INTERVAL_S: Final = 0.05
SIDE_TOPIC: Final = "side"
SIDES: Final = 4
HANGING_CONNECTOR: Final = "hanging"
"""The connector whose tasks hang."""
MAX_POLL_S: Final = 6.0
"""`max.poll.interval.ms` of sinks that execute commands, in seconds. The session timeout allows no lower value."""
_SOURCE: Final = "FileStreamSource"
_SINK: Final = "FileStreamSink"
_BATCH_BYTES: Final = "1024"
"""Bytes after which a producer switches to the other partition. With the default of 256 KiB, this takes a minute."""
_TAIL_BYTES: Final = 1_000


class Target(Enum):
    """The target of a pipe's sink."""

    FILE = auto()
    """One file."""
    SLOW_FILE = auto()
    """One file, written by a sink that executes commands."""
    FILES = auto()
    """Files by offset range in a directory, written exactly once by a sink that executes commands."""
    ICEBERG = auto()
    """An Iceberg table, written exactly once."""
    DELTA = auto()
    """A Delta table, written exactly once."""


@dataclass(frozen=True, slots=True)
class Pipe:
    """A source, a topic and a sink."""

    name: str
    source_file: Path
    sink_file: Path
    """The sink's file, or its directory for all targets that are not one file."""
    target: Target = Target.FILE
    commands: Commands = field(default_factory=lambda: Commands(Path()))
    """Commands for the sink."""
    lines: int = LINES
    """Number of lines appended to the source file at a time."""

    @property
    def partitions(self) -> int:
        """Number of partitions of the topic."""
        return 2 if self.target is Target.FILES else 1

    @property
    def table(self) -> LineTable | None:
        """The table that the sink writes, if any."""
        if self.target not in {Target.ICEBERG, Target.DELTA}:
            return None
        return LineTable(self.sink_file, is_iceberg=self.target is Target.ICEBERG)

    @property
    def configs(self) -> dict[str, dict[str, str]]:
        """The configs of the connectors in the target state, by name."""
        source = {"connector.class": _SOURCE, "tasks.max": "1", "topic": self.name}
        if self.partitions > 1:
            source["producer.override.batch.size"] = _BATCH_BYTES
        return {
            f"{self.name}-source": source | {"file": str(self.source_file)},
            f"{self.name}-sink": {"tasks.max": "1", "topics": self.name} | self._sink_config,
        }

    def delivery(self, written: int) -> Delivery:
        """Read everything that the sink has written, and check its delivery."""
        if self.table is not None:
            return check_delivery(self.name, written, self.table.read_lines())
        content = b"".join(self._yield_contents())
        return check_delivery(self.name, written, content.removesuffix(b"\n").split(b"\n") if content else [])

    def read_last_number(self) -> int:
        """Return the number of the last complete line that the sink has written; -1 if there is none."""
        if self.table is not None:
            lines = self.table.read_lines()
            return self._parse_last(lines[-1:])
        if self.target is not Target.FILES:
            return self._read_last(self.sink_file)
        latest = {file.partition: file for file in list_range_files(self.sink_file)}
        return max((self._read_last(self.sink_file / file.name) for file in latest.values()), default=-1)

    def progress(self) -> int:
        """Return a number that changes whenever the sink writes."""
        if self.table is not None:
            return self.table.get_progress()
        if self.target is not Target.FILES:
            return size(self.sink_file)
        with suppress(FileNotFoundError):
            return self.sink_file.stat().st_mtime_ns
        return 0

    @property
    def _sink_config(self) -> dict[str, str]:
        if self.table is not None:
            return self.table.config
        file = str(self.sink_file)
        if self.target is Target.FILE:
            return {"connector.class": _SINK, "file": file}
        command_config = {
            COMMANDS_KEY: str(self.commands.prefix),
            "consumer.override.max.poll.interval.ms": str(int(MAX_POLL_S * 1000)),
        }
        if self.target is Target.SLOW_FILE:
            return {"connector.class": FILE_SINK, "file": file} | command_config
        return {"connector.class": FILES_SINK, "spark.format": "text", "path": file} | command_config

    def _yield_contents(self) -> Iterator[bytes]:
        if self.target is Target.FILES:
            yield from (content for _, content in read_files(self.sink_file))
        elif self.sink_file.exists():
            yield self.sink_file.read_bytes()

    def _read_last(self, path: Path) -> int:
        try:
            with path.open("rb") as file:
                file.seek(max(0, size(path) - _TAIL_BYTES))
                lines = file.read().split(b"\n")[:-1]
        except FileNotFoundError:  # not yet created, or being replaced
            return -1
        return self._parse_last(lines[-1:])

    def _parse_last(self, lines: Sequence[bytes]) -> int:
        number = parse_number(self.name, lines[0]) if lines else None
        return -1 if number is None else number


def side_config(number: int, directory: Path, variant: int) -> dict[str, str]:
    """Return the config of a side connector: a source of a few lines, or, for odd numbers, a sink of the first pipe."""
    config = {"tasks.max": str(1 + variant % 2)}
    if number % 2:
        return config | {
            "connector.class": _SINK,
            "file": str(directory / f"side-{number}.out"),
            "topics": "pipe-0",
        }
    return config | {"connector.class": _SOURCE, "file": str(directory / "side.in"), "topic": SIDE_TOPIC}


class Feeder:
    """A thread that appends lines to the source files and monitors the sink files."""

    def __init__(self, pipes: Sequence[Pipe]) -> None:
        """Create empty source files."""
        self._pipes = pipes
        for pipe in pipes:
            pipe.source_file.touch()
        self._append_count = 0
        self._last_progress_s = {pipe: time.monotonic() for pipe in pipes}
        """Monotonic time of the last progress of each sink file."""
        self.standstill_s = 0.0
        """Maximum time without progress of a sink file while lines were appended."""
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)

    def start(self) -> None:
        """Start appending."""
        self._thread.start()

    def count_written(self, pipe: Pipe) -> int:
        """Return the number of lines in a pipe's source file."""
        return self._append_count * pipe.lines

    def get_stall_s(self, pipe: Pipe) -> float:
        """Return the seconds since the last progress of a pipe's sink file."""
        return time.monotonic() - self._last_progress_s[pipe]

    def stop(self) -> None:
        """Stop appending."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        positions = {pipe: pipe.progress() for pipe in self._pipes}
        last_progress_s = self._last_progress_s
        last_progress_s.update({pipe: time.monotonic() for pipe in self._pipes})
        due = time.monotonic()
        while not self._stopped.wait(POLL_INTERVAL_S):
            now = time.monotonic()
            for pipe in self._pipes:
                if (progress := pipe.progress()) != positions[pipe]:
                    positions[pipe], last_progress_s[pipe] = progress, now
                self.standstill_s = max(self.standstill_s, now - last_progress_s[pipe])
            if now >= due:
                due = now + APPEND_INTERVAL_S
                self._append_lines()

    def _append_lines(self) -> None:
        for pipe in self._pipes:
            first = self.count_written(pipe)
            numbers = range(first, first + pipe.lines)
            with pipe.source_file.open("ab") as file:
                file.write(b"".join(make_line(pipe.name, number) for number in numbers))
        self._append_count += 1
