"""`java-plugins-start`: time from the start of a worker until its first Java task writes a record.

The Java worker and the Kraal worker are clusters of one worker each, with the same `plugin.path` of 22 directories:
plugins from Maven, some without a manifest, and ten versions of a small plugin. The worker is stopped while it runs
Java's FileStreamSource. A line is then appended to the file of the source, and the worker is started again. The result
is the time until the line is in Kafka. The first start, in which Kraal caches its list of plugins, is not measured.
"""

from __future__ import annotations

import shutil
import time
import zipfile
from pathlib import Path

from kraal.jars.jars import ensure
from kraal.jars.java_module import compile_jar, java_class_path
from scripts.bench.control.java_plugins_rest import SOURCES
from scripts.bench.data.java_plugins import SOURCE, create_plugin_path
from scripts.bench.lab import Lab, say, source_config
from scripts.bench.report import Case, Target
from scripts.harness.processes import wait_until
from scripts.harness.topics import Reader
from scripts.harness.workers import START_TIMEOUT_S, Worker

GROUPS = (
    "debezium",
    "debezium-earlier",
    "debezium-mariadb",
    "iceberg",
    "mongodb",
    "rabbitmq",
    "snowflake",
    "pubsub",
    "s3a",
    "transforms",
    "mirror",
)
"""Groups of jars; with Kafka's file connectors and `VERSIONS` small plugins, there are 22 directories."""
VERSIONS = 10
NAME = "file"
LIMIT_S = 10.0


def run(lab: Lab) -> list[Case]:
    """Restart each worker several times, and measure the time until its task writes a new line."""
    extra = {"plugin.path": str(_create_plugin_path(lab.directory))}
    seconds: dict[str, list[float]] = {"java": [], "kraal": []}
    for kind in lab.options.sides:
        cluster = lab.cluster(kind, extra)
        file, topic = lab.file(1), lab.topic("start")
        reader = lab.reader(topic)
        worker = cluster.launch()
        worker.wait_until_up()
        worker.rest.create(NAME, source_config(file, topic) | SOURCE)
        _wait_for_record(reader, 1, worker)
        for number in range(lab.options.times(3, 1)):
            cluster.end(worker)
            with file.open("a", encoding="utf-8") as lines:
                lines.write(f"start {number}\n")
            lab.settle()
            started_s = time.monotonic()
            worker = cluster.launch()
            _wait_for_record(reader, number + 2, worker)
            seconds[kind].append(time.monotonic() - started_s)
            say(f"{kind}: {seconds[kind][-1]:.2f} s")
        cluster.stop()
    return [
        Case(
            "start until a Java task writes",
            "s",
            seconds["java"],
            seconds["kraal"],
            wanted=Target(limit=LIMIT_S),
        )
    ]


def _create_plugin_path(directory: Path) -> Path:
    """Create and return a plugin path with 22 directories."""
    root = create_plugin_path(directory)
    for group in GROUPS:
        (root / group).mkdir()
        for jar in ensure(group):
            shutil.copy(jar, root / group)
    for number in range(VERSIONS):
        jar = root / f"versioned-{number}" / "versioned.jar"
        jar.parent.mkdir()
        compile_jar(SOURCES, java_class_path(), jar)
        with zipfile.ZipFile(jar, "a") as archive:
            archive.writestr("version.txt", f"{number}.0")
    return root


def _wait_for_record(reader: Reader, count: int, worker: Worker) -> None:
    """Wait until the topic has `count` records."""
    wait_until(
        f"{worker.name} had written {count} lines",
        lambda: reader.end() >= count,
        timeout_s=START_TIMEOUT_S,
        every_s=0.02,
        program=worker.process,
    )
