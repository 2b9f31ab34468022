"""The environment of a benchmark: its own broker and directory, and workers that are stopped at the end."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kraal.broker.broker import Broker, free_port
from scripts.harness.clusters import Cluster
from scripts.harness.java_connect import CURRENT
from scripts.harness.lines import LINE_BYTES_ON_DISK, size, write_lines
from scripts.harness.processes import wait_until
from scripts.harness.topics import Reader, create_topic
from scripts.harness.workers import (
    Worker,
    java_distributed,
    java_standalone,
    kraal_distributed,
    kraal_standalone,
)

SIDES = ("java", "kraal")
WARM_UP_LINES = 200_000
TRANSFER_TIMEOUT_S = 300.0
GIGABYTES = 10.0


@dataclass(frozen=True, slots=True)
class Options:
    """Command-line options of the benchmarks."""

    quick: bool
    sides: tuple[str, ...]
    gigabytes: float = GIGABYTES
    """Size of the data that `big` sends; a quick run sends a tenth."""

    def lines(self) -> int:
        """Return the number of lines in a transfer."""
        return 300_000 if self.quick else 3_000_000

    def times(self, full: int, quick: int) -> int:
        """Return `quick` in a quick run, or else `full`."""
        return quick if self.quick else full


@dataclass(slots=True)
class Lab:
    """The environment of one benchmark; `open_lab` opens and closes it."""

    options: Options
    directory: Path
    broker: Broker
    _stack: ExitStack
    _numbers: Iterator[int] = field(default_factory=lambda: iter(range(1_000_000)))

    @property
    def bootstrap(self) -> str:
        """The broker's `bootstrap.servers`."""
        return self.broker.bootstrap

    def new_name(self, prefix: str) -> str:
        """Return an unused name."""
        return f"{prefix}-{next(self._numbers)}"

    def topic(self, prefix: str, config: Mapping[str, str] | None = None) -> str:
        """Create a new topic with one partition; return the topic's name."""
        name = self.new_name(prefix)
        create_topic(self.bootstrap, name, config)
        return name

    def start(self, kind: str, extra: Mapping[str, str] | None = None) -> Worker:
        """Start a worker, which is stopped with the lab. `kind` is a side, optionally followed by `-distributed`."""
        directory = self.directory / self.new_name(kind)
        directory.mkdir()
        if kind == "java-distributed":
            worker = java_distributed(self.bootstrap, directory)
        elif kind == "kraal-distributed":
            worker = kraal_distributed(self.bootstrap, directory)
        else:
            make = java_standalone if kind == "java" else kraal_standalone
            worker = make(self.bootstrap, directory, extra=extra)
        self._stack.callback(worker.stop)
        return worker

    def cluster(self, kind: str, extra: Mapping[str, str] | None = None, version: str = CURRENT) -> Cluster:
        """Create a cluster of `java` or `kraal` workers without starting it; it is stopped with the lab.

        `version` is that of Java workers.
        """
        say(f"creating a cluster of {kind} workers")
        name = self.new_name(f"cluster-{kind}")
        cluster = Cluster(kind, self.broker, self.directory / name, name, extra, version)
        self._stack.callback(cluster.stop)
        return cluster

    def start_warm(self, kinds: tuple[str, ...], extra: Mapping[str, str] | None = None) -> dict[str, Worker]:
        """Start workers one after another; wait until each is up, and warm it up."""
        workers = {}
        for kind in kinds:
            say(f"starting and warming up: {kind}")
            workers[kind] = self.start(kind, extra)
            workers[kind].wait_until_up()
            self.warm_up(workers[kind])
        return workers

    def reader(self, topic: str) -> Reader:
        """Create a reader of `topic`, which is closed with the lab."""
        reader = Reader(self.bootstrap, topic)
        self._stack.callback(reader.close)
        return reader

    def file(self, lines: int) -> Path:
        """Write a new file of numbered lines; return its path."""
        path = self.directory / self.new_name("lines")
        write_lines(path, lines)
        return path

    def warm_up(self, worker: Worker) -> None:
        """Send a file through a source and a sink, so that no measurement includes one-time costs."""
        source, sink = self.file(WARM_UP_LINES), self.directory / self.new_name("warmed")
        topic = self.topic("warm-up")
        worker.rest.create("warm-source", source_config(source, topic))
        worker.rest.create("warm-sink", sink_config(sink, topic))
        wait_until(
            f"{worker.name} had copied the warm-up lines",
            lambda: size(sink) >= WARM_UP_LINES * LINE_BYTES_ON_DISK,
            timeout_s=120,
            program=worker.process,
        )
        worker.rest.delete("warm-source")
        worker.rest.delete("warm-sink")
        source.unlink()

    def settle(self) -> None:
        """Flush the writes of earlier runs to disk."""
        os.sync()
        time.sleep(1.0)


@contextmanager
def open_lab(options: Options, directory: Path, broker_settings: Mapping[str, str]) -> Iterator[Lab]:
    """Start a broker with its data in `directory`; stop it and all workers on exit."""
    with ExitStack() as stack:
        broker = Broker(directory / "broker", free_port(), extra=broker_settings)
        broker.start()
        stack.callback(broker.stop)
        yield Lab(options, directory, broker, stack)


def source_config(file: Path, topic: str) -> dict[str, str]:
    """Return the config of a FileStreamSource with only the required keys."""
    return {"connector.class": "FileStreamSource", "tasks.max": "1", "file": str(file), "topic": topic}


def sink_config(file: Path, topic: str) -> dict[str, str]:
    """Return the config of a FileStreamSink with only the required keys."""
    return {"connector.class": "FileStreamSink", "tasks.max": "1", "file": str(file), "topics": topic}


def say(text: str) -> None:
    """Print the progress to stderr; results go to stdout."""
    print(f"  … {text}", file=sys.stderr, flush=True)


def measure_alternately(
    workers: Mapping[str, Worker], rounds: int, measure: Callable[[str, Worker], list[float]]
) -> dict[str, list[list[float]]]:
    """Measure each worker once per round, in alternating order; return the results of each round by kind."""
    results: dict[str, list[list[float]]] = {kind: [] for kind in workers}
    for number in range(rounds):
        kinds = list(workers) if number % 2 == 0 else list(workers)[::-1]
        for kind in kinds:
            results[kind].append(measure(kind, workers[kind]))
            figures = ", ".join(f"{figure:,.4g}" for figure in results[kind][-1])
            say(f"round {number + 1}, {kind}: {figures}")
    return results
