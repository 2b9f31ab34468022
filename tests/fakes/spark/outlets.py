"""Lines that are copied through each kind of connector on one worker, with counts of their output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import confluent_kafka as ck

from kraal.broker.records import read_topic
from kraal.testing.process import WorkerProcess
from tests.fakes.spark.pipe import PADDING, create_topic

READ_TIMEOUT_S = 300.0
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
_MIRROR = "org.apache.kafka.connect.mirror.MirrorSourceConnector"


class Outlets:
    """Numbered lines that are copied from a file and from a directory to one topic each, to sinks, and to mirrors."""

    def __init__(self, worker: WorkerProcess, bootstrap: str, directory: Path) -> None:
        """Create the topics and connectors; there are no lines yet."""
        name = self.name = directory.name
        self.worker, self._bootstrap = worker, bootstrap
        self._file, self._spool = directory / "in.txt", directory / "spool"
        self._sink, self._rows = directory / "out.txt", directory / "rows"
        self._spool.mkdir(parents=True)
        self._file.touch()
        self.line_count = self._drained_size = 0
        lines, rows = f"{name}-lines", f"{name}-rows"
        self._topics = (lines, rows, f"west.{lines}", f"west.{rows}")
        for topic in self._topics:
            create_topic(bootstrap, topic)
        text = {"spark.format": "text"}
        self.configs: Mapping[str, Mapping[str, str]] = {
            f"{name}-file-source": {
                "connector.class": "FileStreamSource",
                "file": str(self._file),
                "topic": lines,
            },
            f"{name}-file-sink": {
                "connector.class": "FileStreamSink",
                "file": str(self._sink),
                "topics": lines,
            },
            f"{name}-spark-source": {
                "connector.class": "SparkSource",
                "path": str(self._spool),
                "topic": rows,
                **text,
            },
            f"{name}-spark-sink": {
                "connector.class": "SparkSink",
                "path": str(self._rows),
                "topics": rows,
                **text,
            },
            f"{name}-mirror": self._mirror_config(lines),
            f"{name}-mirror-now": self._mirror_config(rows, trigger="realtime"),
        }
        for connector, config in self.configs.items():
            worker.create(connector, dict(config))

    def write(self, count: int) -> None:
        """Append `count` lines to the file, and write the same lines to a new file."""
        numbers = range(self.line_count, self.line_count + count)
        text = "".join(f"{number:010d}{PADDING}\n" for number in numbers)
        with self._file.open("a", encoding="ascii") as file:
            file.write(text)
        hidden_file = self._spool / f".{self.line_count:010d}"
        hidden_file.write_text(text, encoding="ascii")
        hidden_file.rename(self._spool / hidden_file.name.removeprefix("."))
        self.line_count += count

    def wait_until_flowing(self, timeout_s: float) -> None:
        """Wait until the file sink has written more than at the last `wait_until_through`."""
        drained_size = self._drained_size
        self.worker.wait_until(
            f"{self.name}: there was new output",
            lambda: self._sink.exists() and self._sink.stat().st_size > drained_size,
            timeout_s=timeout_s,
        )

    def wait_until_running(self, timeout_s: float) -> None:
        """Wait until each connector and its task are RUNNING."""
        for connector in self.configs:
            self.worker.wait_for_states(connector, ["RUNNING", "RUNNING"], timeout_s)

    def wait_until_through(self, timeout_s: float) -> None:
        """Wait until each outlet contains the last line. It then has all lines, because outlets are ordered."""
        last_line = f"{self.line_count - 1:010d}{PADDING}".encode()
        checks: dict[str, Callable[[], bool]] = {
            str(self._sink): lambda: last_line in _read_end(self._sink),
            str(self._rows): lambda: last_line in _read_end(_find_newest(self._rows)),
        }
        for topic in self._topics:
            checks[topic] = lambda topic=topic: last_line in _newest_records(self._bootstrap, topic)  # type: ignore[misc]
        for outlet, has_last_line in checks.items():
            self.worker.wait_until(
                f"the last of {self.line_count} lines was in {outlet}", has_last_line, timeout_s=timeout_s
            )
        self._drained_size = self._sink.stat().st_size

    def repeats(self) -> dict[str, int]:
        """Check that each outlet has all lines and nothing else; return the number of duplicate lines by outlet."""
        expected_lines = {f"{number:010d}{PADDING}".encode() for number in range(self.line_count)}
        repeats: dict[str, int] = {}
        for outlet, lines in self._read_outlets():
            counts = Counter(lines)
            missing = expected_lines - counts.keys()
            assert not missing, (
                f"{outlet}: {len(missing)} lines are missing, the first one is {min(missing)!r}"
            )
            assert counts.keys() == expected_lines, (
                f"{outlet}: unexpected lines: {sorted(counts.keys() - expected_lines)[:3]}"
            )
            repeats[outlet] = counts.total() - len(expected_lines)
        return repeats

    def _read_outlets(self) -> Iterator[tuple[str, list[bytes]]]:
        yield "file-sink", self._sink.read_bytes().splitlines()
        yield (
            "spark-sink",
            [
                line
                for path in self._rows.glob(f"{self.name}-rows+*")
                for line in path.read_bytes().splitlines()
            ],
        )
        for topic in self._topics:
            yield (
                topic,
                [r.value or b"" for r in read_topic(self._bootstrap, topic, timeout_s=READ_TIMEOUT_S)],
            )

    def _mirror_config(self, topic: str, **settings: str) -> dict[str, str]:
        return {
            "connector.class": _MIRROR,
            "source.cluster.alias": "west",
            "source.cluster.bootstrap.servers": self._bootstrap,
            "target.cluster.alias": "east",
            "target.cluster.bootstrap.servers": self._bootstrap,
            "topics": topic,
            "replication.factor": "1",
            **{f"{part}.converter": _BYTES for part in ("key", "value", "header")},
            **settings,
        }


def _find_newest(folder: Path) -> Path:
    return max((path for path in folder.glob("*+*") if path.is_file()), default=folder / "none")


def _read_end(path: Path) -> bytes:
    if not path.exists():
        return b""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 1000))
        return file.read()


def _newest_records(bootstrap: str, topic: str) -> list[bytes]:
    """Return the values of the last records of a topic with one partition."""
    consumer: Any = ck.Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "log_level": 2})
    try:
        low, high = consumer.get_watermark_offsets(ck.TopicPartition(topic, 0), timeout=READ_TIMEOUT_S)
        if high == low:
            return []
        consumer.assign([ck.TopicPartition(topic, 0, max(low, high - 10))])
        messages = consumer.consume(high - max(low, high - 10), timeout=5.0)
        return [message.value() for message in messages if message.error() is None]
    finally:
        consumer.close()
