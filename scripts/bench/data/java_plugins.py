"""`java-plugins`: Java's own file connectors as plugins, on a Java worker and on Kraal.

The Java worker and the Kraal worker are clusters of one worker each, with the same `plugin.path`: a directory with the
jar of Kafka's file connectors. Kraal runs these connectors in its JVM of Java plugins, so the target is a ratio of at
least 1. Both workers are warm and idle before a measurement. The warm-up fails unless Kraal's JVM of Java plugins has
the files of both connectors open. Sources are measured as in `source`, in the second row with the transforms and the
converter of `transforms`. Sinks are measured as in `sink`; they read a topic that the first measurement filled, and run
several unmeasured rounds first.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import psutil

from scripts.bench.data.sink import drain
from scripts.bench.data.source import check, transfer
from scripts.bench.data.transforms import CHAIN
from scripts.bench.lab import WARM_UP_LINES, Lab, measure_alternately, say, sink_config, source_config
from scripts.bench.report import Case, Target
from scripts.harness.java_connect import class_path
from scripts.harness.lines import LINE_BYTES_ON_DISK, sha256, size
from scripts.harness.processes import ScriptFailed, wait_until
from scripts.harness.workers import START_TIMEOUT_S, Worker

JAR = "connect-file"
SOURCE = {"connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector"}
SINK = {"connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector"}
PROCESS = "kraal.plugins.PluginProcess"
READY = "Java plugins are ready"
WARM_UP_ROUNDS, SINK_ROUNDS = 5, 9
"""Numbers of unmeasured and of measured rounds of the sink, which becomes faster because of the JVM's JIT compiler."""
IDLE_S = 2.0
IDLE_CORES = 0.2

Measure = Callable[[str, Worker], list[float]]


def run(lab: Lab) -> list[Case]:
    """Measure a source, a source with transforms, and a sink on both sides."""
    lines = lab.options.lines() // 3
    file = lab.file(lines)
    extra = {"plugin.path": str(create_plugin_path(lab.directory))}
    workers = {kind: start_worker(lab, kind, extra) for kind in lab.options.sides}
    topics: list[str] = []
    cases = []
    for name, measure, rounds in (
        ("FileStreamSource with default settings", _measure_source(lab, file, lines, topics), 3),
        ("FileStreamSource with transforms and JsonConverter", _measure_transforms(lab, file, lines), 3),
        ("FileStreamSink", _measure_sink(lab, file, lines, topics), SINK_ROUNDS),
    ):
        say(name)
        if rounds == SINK_ROUNDS:
            measure_alternately(workers, lab.options.times(WARM_UP_ROUNDS, 0), measure)
        rows = measure_alternately(workers, lab.options.times(rounds, 1), measure)
        java, kraal = ([row[0] for row in rows.get(kind, [])] for kind in ("java", "kraal"))
        cases.append(Case(name, "records/s", java, kraal, more_is_better=True, wanted=Target(ratio=1.0)))
    return cases


def create_plugin_path(directory: Path) -> Path:
    """Create and return a plugin path with Kafka's file connectors."""
    path = directory / "plugins"
    (path / "file").mkdir(parents=True)
    jar = next(path for path in class_path().split(os.pathsep) if JAR in path)
    shutil.copy(jar, path / "file")
    return path


def start_worker(lab: Lab, kind: str, extra: dict[str, str]) -> Worker:
    """Start a cluster of one worker, and warm it up with Java's connectors."""
    cluster = lab.cluster(kind, extra)
    cluster.start(1)
    worker = cluster.workers[0]
    wait_until_ready(kind, worker)
    say(f"warming up: {kind}")
    _warm_up(lab, kind, worker)
    wait_until_idle(worker)
    return worker


def wait_until_ready(kind: str, worker: Worker) -> None:
    """Wait until a Kraal worker has its Java plugins; a Java worker has them when it is up."""
    if kind == "kraal":
        wait_until(
            f"{worker.name} had its Java plugins",
            lambda: READY in worker.process.log.read_text(encoding="utf-8", errors="replace"),
            timeout_s=START_TIMEOUT_S,
            program=worker.process,
        )


def wait_until_idle(worker: Worker) -> None:
    """Wait until a worker uses little CPU time."""
    wait_until(
        f"{worker.name} was idle", lambda: _is_idle(worker), timeout_s=START_TIMEOUT_S, program=worker.process
    )


def _warm_up(lab: Lab, kind: str, worker: Worker) -> None:
    """Warm up the worker with Java's connectors. Raises ScriptFailed if Kraal runs its own instead."""
    source, sink = lab.file(WARM_UP_LINES), lab.directory / lab.new_name("warmed")
    topic = lab.topic("warm-up")
    worker.rest.create("warm-source", source_config(source, topic) | SOURCE)
    worker.rest.create("warm-sink", sink_config(sink, topic) | SINK)
    wait_until(
        f"{worker.name} had copied the warm-up lines",
        lambda: size(sink) >= WARM_UP_LINES * LINE_BYTES_ON_DISK,
        timeout_s=120,
        program=worker.process,
    )
    if kind == "kraal" and not has_open(worker.process.tree(), (source, sink)):
        raise ScriptFailed(f"{worker.name} does not run the file connectors in its JVM of Java plugins.")
    worker.rest.delete("warm-source")
    worker.rest.delete("warm-sink")
    source.unlink()


def has_open(processes: Iterable[psutil.Process], files: Iterable[Path]) -> bool:
    """Return whether the JVM of Java plugins is among the processes and has these files open."""
    paths = {str(file.resolve()) for file in files}
    for process in processes:
        with suppress(psutil.Error):
            if PROCESS in process.cmdline() and paths <= {file.path for file in process.open_files()}:
                return True
    return False


def _is_idle(worker: Worker) -> bool:
    """Return whether the worker uses little CPU time over a short period."""
    before = worker.process.usage().cpu_s
    time.sleep(IDLE_S)
    return worker.process.usage().cpu_s - before < IDLE_CORES * IDLE_S


def _measure_source(lab: Lab, file: Path, lines: int, topics: list[str]) -> Measure:
    """Return a function that measures the source, appends its topic to `topics`, and checks each side's first topic."""
    checked_kinds, expected = set[str](), sha256(file)

    def measure(kind: str, worker: Worker) -> list[float]:
        topic = lab.topic("plugin-source")
        seconds, _ = transfer(lab, worker, file, topic, lines, SOURCE)
        topics.append(topic)
        if kind not in checked_kinds:
            checked_kinds.add(kind)
            check(lab, kind, topic, lines, expected)
        return [lines / seconds]

    return measure


def _measure_transforms(lab: Lab, file: Path, lines: int) -> Measure:
    """Return a function that measures the source with transforms; the first topics of both sides must be equal."""
    checksums: dict[str, str] = {}

    def measure(kind: str, worker: Worker) -> list[float]:
        topic = lab.topic("plugin-transforms")
        seconds, _ = transfer(lab, worker, file, topic, lines, SOURCE | CHAIN)
        if kind not in checksums:
            checksums[kind] = lab.reader(topic).sha256(lines)
            if len(set(checksums.values())) > 1:
                raise ScriptFailed("Java's and Kraal's topics differ.")
        return [lines / seconds]

    return measure


def _measure_sink(lab: Lab, file: Path, lines: int, topics: list[str]) -> Measure:
    """Return a function that measures the sink with the first of `topics`; each file must equal the source file."""
    expected = sha256(file)

    def measure(_kind: str, worker: Worker) -> list[float]:
        out = lab.directory / lab.new_name("out")
        config = sink_config(out, topics[0]) | SINK
        seconds = drain(lab, worker, config, lambda: size(out), lines * LINE_BYTES_ON_DISK)
        if sha256(out) != expected:
            raise ScriptFailed(f"The file of {worker.name} differs from the records of the topic.")
        out.unlink()
        return [lines / seconds]

    return measure
