"""Numbered lines that are continuously copied through several pipes of a cluster, and checks of their output."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from kraal.testing import ProcessCluster
from tests.fakes.spark.pipe import RUNNING, Pipe, create_topic

WRITE_INTERVAL_S = 0.5
LINES_PER_WRITE = 10
"""The number of lines per write to each pipe. Smaller, more frequent writes would overload a small machine."""
_POLL_INTERVAL_S = 0.02

Owners = Mapping[tuple[str, str], str]
"""Worker ids of running instances, by connector and `connector` or task number."""


class Flow:
    """Pipes on one cluster. A thread writes lines between `start` and `stop`."""

    def __init__(self, cluster: ProcessCluster, bootstrap: str, directory: Path, count: int) -> None:
        """Create the pipes without writing lines, and wait until they are running."""
        self.cluster = cluster
        self._bootstrap = bootstrap
        self.pipes = [Pipe(cluster.alive[n % len(cluster.alive)], directory) for n in range(count)]
        for pipe in self.pipes:
            pipe.source_file.touch()
            create_topic(bootstrap, pipe.topic)
            pipe.create()
        self.wait_until_running()
        self.pauses: dict[str, float] = {}
        """The longest time without new output in seconds, by topic of the pipe."""
        self._stop_requested = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def names(self) -> Sequence[str]:
        """The names of all connectors."""
        return [name for pipe in self.pipes for name in (pipe.source, pipe.sink)]

    def start(self) -> None:
        """Start writing lines, and wait until each pipe has output."""
        self._stop_requested.clear()
        self._thread = threading.Thread(target=self._run, name="flow")
        self._thread.start()
        initial_sizes = {pipe.topic: pipe.sink_size() for pipe in self.pipes}
        self.cluster.wait_until(
            "each pipe had output",
            lambda: all(pipe.sink_size() > initial_sizes[pipe.topic] for pipe in self.pipes),
        )
        self.pauses = {pipe.topic: 0.0 for pipe in self.pipes}

    def stop(self) -> None:
        """Stop writing lines."""
        thread, self._thread = self._thread, None
        self._stop_requested.set()
        if thread is not None:
            thread.join()

    @contextmanager
    def flowing(self) -> Iterator[None]:
        """Write lines while the body runs, then wait until all pipes are drained."""
        self.start()
        try:
            yield
        finally:
            self.stop()
        self.wait_until_through()

    def wait_until_running(self) -> None:
        """Wait until all connectors and tasks are RUNNING according to each worker."""
        for name in self.names:
            self.cluster.wait_for_states(name, RUNNING)

    def wait_until_balanced(self, workers: int) -> None:
        """Wait until all connectors and tasks run and are balanced between `workers` workers."""

        def is_balanced() -> bool:
            work = self.cluster.work()
            return (
                work.total() == 2 * len(self.names)
                and len(work) == workers
                and max(work.values()) - min(work.values()) <= 2
            )

        self.cluster.wait_until("the instances were balanced", is_balanced)

    def wait_until_through(self) -> None:
        """Wait until each pipe has written its last line."""
        for pipe in self.pipes:
            pipe.worker = self.cluster.alive[0]
            pipe.wait_until_through()

    def wait_until_new_output(self) -> None:
        """Wait until each pipe has written a line that was added after this call."""
        first_new_lines = {pipe.topic: pipe.line_count for pipe in self.pipes}

        def has_new_output() -> bool:
            return all(self._read_last_number(pipe) >= first_new_lines[pipe.topic] for pipe in self.pipes)

        try:
            self.cluster.wait_until("each pipe had new output", has_new_output)
        except AssertionError as error:
            progress = "\n".join(map(self._describe_progress, self.pipes))
            raise AssertionError(f"{error}\n{progress}") from error

    def owners(self) -> Owners:
        """Return the owner of each connector and task, according to the statuses."""
        return {
            (name, key): worker for name in self.names for key, worker in self.cluster.owners(name).items()
        }

    def repeats(self) -> dict[str, int]:
        """Check that each line was written; return the number of duplicate ranges of each pipe.

        A batch that is written twice counts as one range, regardless of its size.
        """
        counts: dict[str, int] = {}
        for pipe in self.pipes:
            pipe.assert_at_least_once()
            numbers = [int(line[:10]) for line in pipe.sink_lines()]
            counts[pipe.topic] = sum(number <= previous for previous, number in itertools.pairwise(numbers))
        return counts

    def delete(self) -> None:
        """Delete all connectors."""
        for name in self.names:
            self.cluster.alive[0].ask("DELETE", f"/connectors/{name}")

    def _run(self) -> None:
        sizes = {pipe.topic: pipe.sink_size() for pipe in self.pipes}
        last_growth_s = {pipe.topic: time.monotonic() for pipe in self.pipes}
        next_s = time.monotonic()
        while not self._stop_requested.wait(_POLL_INTERVAL_S):
            now = time.monotonic()
            for pipe in self.pipes:
                topic, size = pipe.topic, pipe.sink_size()
                if size != sizes[topic]:
                    sizes[topic], last_growth_s[topic] = size, now
                if topic in self.pauses:
                    self.pauses[topic] = max(self.pauses[topic], now - last_growth_s[topic])
            if now >= next_s:
                next_s = now + WRITE_INTERVAL_S
                for pipe in self.pipes:
                    pipe.write(LINES_PER_WRITE)

    def _describe_progress(self, pipe: Pipe) -> str:
        """Describe the progress of a pipe's source and sink."""
        partition = TopicPartition(pipe.topic, 0)
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": f"connect-{pipe.sink}"})
        try:
            bounds = consumer.get_watermark_offsets(partition, timeout=30)
            committed = consumer.committed([partition], timeout=30)
        finally:
            consumer.close()
        return (
            f"{pipe.topic}: {pipe.line_count} lines were written, its topic has {bounds}, its sink has committed "
            f"{committed[0].offset}, and its last line is {self._read_last_number(pipe)}"
        )

    def _read_last_number(self, pipe: Pipe) -> int:
        with pipe.sink_file.open("rb") as file:
            file.seek(max(0, pipe.sink_size() - 10_000))
            lines = [line for line in file.read().split(b"\n")[1:] if len(line) > 10]
        return max((int(line[:10]) for line in lines), default=-1)


class StatusTopic:
    """The records that are written to a cluster's status topic after the creation of this object."""

    def __init__(self, bootstrap: str, cluster: ProcessCluster) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "unused",
                "enable.auto.commit": False,
                "log_level": 2,
            }
        )
        self._topic = f"{cluster.group}-status"
        self._start = self._ends()

    def records(self) -> list[tuple[str, str]]:
        """Return the keys and values of all new records, partition by partition."""
        ends = self._ends()
        records: list[tuple[str, str]] = []
        for partition, end in ends.items():
            if end == self._start[partition]:
                continue
            self._consumer.assign([TopicPartition(self._topic, partition, self._start[partition])])
            position = self._start[partition]
            deadline = time.monotonic() + 30
            while position < end:
                assert time.monotonic() < deadline, "the status topic could not be read"
                message: Any = self._consumer.poll(1)
                if message is not None and message.error() is None:
                    records.append((message.key().decode(), (message.value() or b"").decode()))
                    position = message.offset() + 1
        return records

    def new_statuses(self) -> dict[tuple[str, str], list[str]]:
        """Return the new statuses of each instance, by connector and `connector` or task number."""
        values: dict[tuple[str, str], list[str]] = {}
        for key, value in self.records():
            if key.startswith("status-task-"):
                name, _, number = key.removeprefix("status-task-").rpartition("-")
                values.setdefault((name, number), []).append(value)
            elif key.startswith("status-connector-"):
                values.setdefault((key.removeprefix("status-connector-"), "connector"), []).append(value)
        return values

    def close(self) -> None:
        """Close the client."""
        self._consumer.close()

    def _ends(self) -> dict[int, int]:
        metadata = self._consumer.list_topics(self._topic, timeout=30).topics[self._topic]
        ends: dict[int, int] = {}
        for partition in metadata.partitions:
            bounds = self._consumer.get_watermark_offsets(TopicPartition(self._topic, partition), timeout=30)
            assert bounds is not None
            ends[partition] = bounds[1]
        return ends


def round_pauses(pauses: Mapping[str, float]) -> list[float]:
    """Return the pauses in seconds, rounded to a tenth, the longest first."""
    return sorted((round(pause, 1) for pause in pauses.values()), reverse=True)
