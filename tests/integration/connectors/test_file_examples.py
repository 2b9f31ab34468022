"""Tests that the example configs of the file connectors work on real Spark and a real broker."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from kraal.engine.api import BatchDone, Opened, Stopped
from tests.fakes.spark.stage import TaskHarness
from tests.fakes.spark.tasks import run_sink
from tests.fakes.workers.examples import example

pytestmark = pytest.mark.ci


def test_example_configs_copy_a_file(harness: TaskHarness, tmp_path: Path) -> None:
    topic, (input_file, output_file) = harness.topic(), (tmp_path / "in", tmp_path / "out")
    input_file.write_text("a\nä\n\nc\n", encoding="utf-8")
    source = example("file-stream-source", {"topic": topic, "file": str(input_file)})
    observer = harness.open(f"file-{uuid.uuid4().hex[:8]}", "FileStreamSource", source)
    observer.expect(Opened)
    observer.run.next()
    assert observer.expect(BatchDone).records == 4
    observer.run.stop()
    assert observer.expect(Stopped).clean
    sink = example("file-stream-sink", {"topics": topic, "file": str(output_file)})
    run_sink(harness, sink, 4, connector="FileStreamSink")
    assert output_file.read_text("utf-8") == input_file.read_text("utf-8")
