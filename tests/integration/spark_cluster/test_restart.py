"""Spark starts again, with all that a cluster needs, when its driver has died."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraal.broker.broker import Broker
from kraal.broker.records import read_topic
from kraal.testing.process import WorkerProcess
from tests.integration.spark_cluster.place import end_of

pytestmark = pytest.mark.slow  # a minute


def test_lines_flow_on_after_the_drivers_death(kafka: Broker, tmp_path: Path) -> None:
    cluster = {"spark.master": "local-cluster[1,1,512]", "spark.executor.memory": "512m"}
    worker = WorkerProcess(tmp_path / "worker", kafka.bootstrap, properties=cluster)
    lines = tmp_path / "lines"
    lines.write_text("first\n")
    try:
        worker.start()
        source = {"connector.class": "FileStreamSource", "file": str(lines), "topic": "local-cluster"}
        worker.create("lines", source)
        worker.wait_until("the first was there", lambda: end_of(kafka.bootstrap, "local-cluster") == 1)
        driver = worker.jvm()
        assert driver is not None
        driver.kill()
        with lines.open("a") as file:
            file.write("second\n")

        def values() -> list[bytes | None]:
            records = read_topic(kafka.bootstrap, "local-cluster", timeout_s=30.0)
            return [record.value for record in records]

        worker.wait_until("the second was there", lambda: values()[-1] == b"second")
        assert set(values()) == {b"first", b"second"}, "the first may come twice"
        assert worker.end() == 0
    finally:
        worker.close()
