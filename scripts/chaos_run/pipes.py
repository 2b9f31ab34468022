"""Files through Kafka into files, what flows through them, and connectors beside them that come and go."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, TopicPartition

from scripts.chaos_run.lines import Delivery, judge, line, number_of
from scripts.harness.lines import size

EVERY_S: Final = 0.25
LINES: Final = 20
"""So many lines come each time, in each pipe."""
LOOK_S: Final = 0.05
SIDE_TOPIC: Final = "side"
SIDES: Final = 4
_READ_S: Final = 30.0
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


def backwards(records: Iterable[tuple[bytes, bytes | None]], pipes: Sequence[Pipe]) -> list[str]:
    """Return where the offset of a pipe's source went back, by the records of the offset topic in their order.

    A task commits what it has read on from, so that its offset only ever rises; one that an old owner commits
    after the new one's is behind it.
    """
    ours = {f"{pipe.name}-source" for pipe in pipes}
    newest: dict[bytes, int] = {}
    found = []
    for key, value in records:
        connector, _ = json.loads(key)
        if connector not in ours or value is None:
            continue
        position = int(json.loads(value)["position"])
        if position < newest.get(key, 0):
            found.append(f"{connector}: from {newest[key]} to {position}")
        newest[key] = position
    return found


def read_topic(bootstrap: str, topic: str) -> list[tuple[bytes, bytes | None]]:
    """Return keys and values of all records of a topic of one partition. Raises AssertionError when it cannot."""
    settings: Mapping[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": "chaos-script",  # demanded by the library; nothing is subscribed or committed
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "log_level": 2,
    }
    consumer = Consumer(dict(settings))
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        records: list[tuple[bytes, bytes | None]] = []
        deadline = time.monotonic() + _READ_S
        while time.monotonic() < deadline:
            message: Any = consumer.poll(1.0)
            if message is None:
                continue
            if message.error() is not None:
                if message.error().name() == "_PARTITION_EOF":
                    return records
                continue
            records.append((message.key(), message.value()))
        raise AssertionError(f"{topic} could not be read in {_READ_S:.0f} s")
    finally:
        consumer.close()
