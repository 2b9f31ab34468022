"""Tests for Java plugins on a standalone worker, which starts Spark only if necessary and shares Java's offset file."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from kraal.broker.broker import Broker
from kraal.broker.records import read_topic
from kraal.testing.process import WorkerProcess
from scripts.harness.java_connect import CURRENT, prepare_plugins
from scripts.harness.processes import wait_until
from scripts.harness.workers import START_TIMEOUT_S, java_standalone
from tests.integration.java_plugins.flows import (
    FILE_SINK,
    RUNNING,
    append,
    plugin_jvm,
    source_config,
    unique_name,
    wait_for_plugins,
)


@pytest.fixture
def worker(kafka: Broker, tmp_path: Path, worker_properties: dict[str, str]) -> Iterator[WorkerProcess]:
    """Return a standalone worker, not yet started, that does not store its connectors, like a Java worker."""
    (tmp_path / "worker.secrets").write_text("timeout=5000\n")
    standalone = WorkerProcess(
        tmp_path / "kraal",
        kafka.bootstrap,
        properties={
            **worker_properties,
            "kraal.standalone.remember.configs": "false",
            # The worker starts only if a config provider in plugin.path resolves this.
            "task.shutdown.graceful.timeout.ms": f"${{rotating:{tmp_path}/worker.secrets:timeout}}",
        },
    )
    yield standalone
    standalone.close()


@pytest.mark.ci
def test_java_connectors_move_to_a_java_worker_and_back_without_spark(
    worker: WorkerProcess, kafka: Broker, tmp_path: Path, worker_properties: dict[str, str]
) -> None:
    name, file, copy_file = unique_name("moves"), tmp_path / "in.txt", tmp_path / "out.txt"
    config = source_config(file, name)

    def has_values(*values: str) -> bool:
        actual = [record.value for record in read_topic(kafka.bootstrap, name, timeout_s=10)]
        return actual == [value.encode() for value in values]

    def wait_for(*values: str) -> None:
        worker.wait_until("all lines arrived", lambda: has_values(*values))

    append(file, "one", "two")
    worker.start()
    wait_for_plugins(worker)
    worker.create(name, config)
    sink = {"connector.class": FILE_SINK, "topics": name, "file": str(copy_file)}
    worker.create(f"{name}-sink", sink)
    worker.wait_for_states(name, RUNNING)
    wait_for("one", "two")
    worker.wait_until("the sink wrote the lines", partial(has_text, copy_file, "one\ntwo\n"))
    assert worker.jvm() is None, "Java connectors need no Spark"
    start_spark(worker, tmp_path / "texts")
    assert worker.end() == 0

    java_dir = tmp_path / "java"
    java_dir.mkdir()
    plugins = prepare_plugins(worker_properties["plugin.path"], CURRENT, java_dir / "plugins")
    overrides = {"plugin.path": plugins, "offset.storage.file.filename": str(worker.offset_file)}
    java = java_standalone(kafka.bootstrap, java_dir, worker_properties | overrides)
    try:
        java.wait_until_up()
        append(file, "three")
        java.rest.create(name, config)
        wait_until(
            "all lines arrived",
            partial(has_values, "one", "two", "three"),
            timeout_s=START_TIMEOUT_S,
            program=java.process,
        )
    finally:
        java.stop()

    append(file, "four")
    worker.start()
    wait_for_plugins(worker)
    worker.create(name, config)
    wait_for("one", "two", "three", "four")
    worker.wait_until(
        "the offset was stored",
        lambda: (
            worker.get(f"/connectors/{name}/offsets").body["offsets"]
            == [{"partition": {"filename": str(file)}, "offset": {"position": 19}}]
        ),
    )

    plugin_jvm(worker).kill()
    append(file, "five")
    wait_for("one", "two", "three", "four", "five")


def has_text(file: Path, text: str) -> bool:
    return file.exists() and file.read_text() == text


def start_spark(worker: WorkerProcess, folder: Path) -> None:
    """Create a connector that needs Spark."""
    folder.mkdir()
    name = unique_name("spark")
    texts = {"connector.class": "SparkSource", "spark.format": "text", "path": str(folder)}
    worker.create(name, texts | {"topic": name})
    worker.wait_until("Spark was running", lambda: worker.jvm() is not None)


@pytest.mark.slow
def test_connectors_with_dedicated_jvms_share_one_offset_file(
    worker: WorkerProcess, kafka: Broker, tmp_path: Path
) -> None:
    worker.properties["plugins.jvm"] = "own"
    names = {unique_name("own"): tmp_path / f"{number}.txt" for number in range(2)}

    def wait_for(*values: str) -> None:
        for name, file in names.items():
            append(file, values[-1])
            worker.wait_until(
                "all lines arrived",
                lambda name=name: (  # type: ignore[misc]
                    [record.value for record in read_topic(kafka.bootstrap, name, timeout_s=10)]
                    == [value.encode() for value in values]
                ),
            )

    def start() -> None:
        worker.start()
        wait_for_plugins(worker)
        for name, file in names.items():
            worker.create(name, source_config(file, name))

    start()
    wait_for("one")
    for name, file in names.items():
        path, partition = f"/connectors/{name}/offsets", {"filename": str(file)}
        worker.wait_until(
            "the offset was stored",
            lambda path=path, partition=partition: (  # type: ignore[misc]
                [entry["partition"] for entry in worker.get(path).body["offsets"]] == [partition]
            ),
        )
        plugin_jvm(worker, name).kill()
    wait_for("one", "two")
    assert worker.end() == 0
    start()
    wait_for("one", "two", "three")
