"""A file that is copied through Kafka to another file, on a worker process."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kraal.testing.process import TIMEOUT_S, WorkerProcess

RUNNING = ["RUNNING", "RUNNING"]
PADDING = "x" * 73
"""Padding for lines of 84 bytes, as in the benchmarks."""


def create_topic(
    bootstrap: str, topic: str, config: Mapping[str, str] | None = None, *, partitions: int = 1
) -> None:
    """Create a topic."""
    admin = AdminClient(
        {"bootstrap.servers": bootstrap, "log_level": 2}
    )  # keep a reference: deleting the client would cancel the request
    try:
        admin.create_topics([NewTopic(topic, partitions, 1, config=dict(config or {}))])[topic].result(30)
    except KafkaException as error:
        raise AssertionError(f"topic {topic}: {error}") from error


class Pipe:
    """Two connectors with unique names, and a topic between them."""

    def __init__(self, worker: WorkerProcess, directory: Path, *, padding: str = PADDING) -> None:
        """Create the object without files and connectors. `padding` follows the number in each line."""
        name = f"pipe-{uuid.uuid4().hex[:8]}"
        self.worker = worker
        self.padding = padding
        self.topic, self.source, self.sink = name, f"{name}-source", f"{name}-sink"
        self.source_file, self.sink_file = directory / f"{name}.source", directory / f"{name}.sink"
        self.line_count = 0
        """The number of lines in the source file, numbered from 0."""

    @property
    def source_config(self) -> dict[str, str]:
        """The config of the source."""
        return {
            "name": self.source,
            "connector.class": "FileStreamSource",
            "file": str(self.source_file),
            "topic": self.topic,
        }

    @property
    def sink_config(self) -> dict[str, str]:
        """The config of the sink."""
        return {
            "name": self.sink,
            "connector.class": "FileStreamSink",
            "file": str(self.sink_file),
            "topics": self.topic,
        }

    def write(self, count: int) -> None:
        """Append lines to the source file."""
        with self.source_file.open("a", encoding="ascii") as file:
            file.writelines(
                f"{n:010d}{self.padding}\n" for n in range(self.line_count, self.line_count + count)
            )
        self.line_count += count

    def create(self) -> None:
        """Create both connectors."""
        self.worker.create(self.source, self.source_config)
        self.worker.create(self.sink, self.sink_config)

    def delete(self) -> None:
        """Delete both connectors."""
        for name in (self.source, self.sink):
            self.worker.ask("DELETE", f"/connectors/{name}")

    def wait_until_running(self) -> None:
        """Wait until both connectors and their tasks are RUNNING."""
        for name in (self.source, self.sink):
            self.worker.wait_for_states(name, RUNNING)

    def states(self) -> list[str]:
        """Return all states of both connectors."""
        return [*self.worker.states(self.source), *self.worker.states(self.sink)]

    def wait_until_first_output(self) -> None:
        """Wait until the first lines are in the sink file."""
        self.worker.wait_until("the pipe had output", lambda: self.sink_size() > 0)

    def wait_until_through(self, timeout_s: float = TIMEOUT_S) -> None:
        """Wait until the sink file is large enough for all lines of the source file, and contains the last line."""
        last_line = f"{self.line_count - 1:010d}{self.padding}\n".encode()

        def is_through() -> bool:
            return self.sink_size() >= self.source_file.stat().st_size and last_line in self._end_of_sink(
                200_000
            )

        self.worker.wait_until(f"the sink file had {self.line_count} lines", is_through, timeout_s=timeout_s)

    def sink_size(self) -> int:
        """Return the size of the sink file; 0 if it does not exist."""
        return self.sink_file.stat().st_size if self.sink_file.exists() else 0

    def is_through_exactly(self) -> bool:
        """Return whether the sink file equals the source file."""
        return (
            self.sink_size() == self.source_file.stat().st_size and self.sink_lines() == self._source_lines()
        )

    def sink_lines(self) -> Sequence[bytes]:
        """Return the lines of the sink file."""
        return self.sink_file.read_bytes().splitlines() if self.sink_file.exists() else []

    def assert_at_least_once(self) -> int:
        """Check that the sink file contains all lines and nothing else; return the number of duplicate lines."""
        counts = Counter(self.sink_lines())
        source_lines = self._source_lines()
        missing = [line for line in source_lines if line not in counts]
        assert not missing, (
            f"{len(missing)} of {len(source_lines)} lines are missing, the first one is {missing[0]!r}"
        )
        assert len(counts) == len(source_lines), (
            f"damaged lines: {sorted(counts.keys() - set(source_lines))[:3]}"
        )
        return counts.total() - len(source_lines)

    def _source_lines(self) -> Sequence[bytes]:
        return self.source_file.read_bytes().splitlines()

    def _end_of_sink(self, count: int) -> bytes:
        with self.sink_file.open("rb") as file:
            file.seek(max(0, self.sink_size() - count))
            return file.read()
