"""Tests that connectors recover after the driver of a cluster is killed, and after its executors were unusable."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraal.broker.broker import Broker
from kraal.broker.records import read_topic
from kraal.testing.process import WorkerProcess
from tests.fakes.spark.bare_python import bare_python
from tests.integration.spark_cluster.environment import read_end_offset

pytestmark = pytest.mark.slow  # two minutes in total

LOCAL_CLUSTER = {"spark.master": "local-cluster[1,1,512]", "spark.executor.memory": "512m"}


def source_config(lines: Path, topic: str) -> dict[str, str]:
    return {"connector.class": "FileStreamSource", "file": str(lines), "topic": topic}


def test_lines_flow_again_after_the_driver_is_killed(kafka: Broker, tmp_path: Path) -> None:
    worker = WorkerProcess(tmp_path / "worker", kafka.bootstrap, properties=LOCAL_CLUSTER)
    lines = tmp_path / "lines"
    lines.write_text("first\n")
    try:
        worker.start()
        worker.create("lines", source_config(lines, "local-cluster"))
        worker.wait_until(
            "the first line was in the topic", lambda: read_end_offset(kafka.bootstrap, "local-cluster") == 1
        )
        driver = worker.jvm()
        assert driver is not None
        driver.kill()
        with lines.open("a") as file:
            file.write("second\n")

        def values() -> list[bytes | None]:
            records = read_topic(kafka.bootstrap, "local-cluster", timeout_s=30.0)
            return [record.value for record in records]

        worker.wait_until("the second line was in the topic", lambda: values()[-1] == b"second")
        assert set(values()) == {b"first", b"second"}, "the first line may be repeated"
        assert worker.end() == 0
    finally:
        worker.close()


def test_unusable_executor_python_is_reported_until_it_is_replaced(kafka: Broker, tmp_path: Path) -> None:
    python, lines = tmp_path / "executor" / "bin" / "python", tmp_path / "lines"
    properties = {**LOCAL_CLUSTER, "spark.pyspark.python": str(python)}
    worker = WorkerProcess(tmp_path / "worker", kafka.bootstrap, properties=properties)
    lines.write_text("first\n")
    reason = f"Executors have no {python}; set spark.pyspark.python"
    try:
        worker.start()
        worker.create("lines", source_config(lines, "unfit"))
        worker.wait_until("the reason was logged", lambda: reason in worker.log_text())
        worker.wait_until(
            "the task reported the reason", lambda: any(reason in trace for trace in worker.traces("lines"))
        )
        assert worker.states("lines") == ["RUNNING", "UNASSIGNED"]
        assert read_end_offset(kafka.bootstrap, "unfit") == 0
        assert bare_python(tmp_path / "executor") == python
        worker.wait_for_states("lines", ["RUNNING", "RUNNING"])
        worker.wait_until("the line was in the topic", lambda: read_end_offset(kafka.bootstrap, "unfit") == 1)
        assert worker.end() == 0
    finally:
        worker.close()
