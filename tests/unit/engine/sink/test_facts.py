"""Tests for the conditions under which a sink task waits in its consumer instead of polling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest
from typing_extensions import override

from kraal.connectors.file.sink import FileStreamSinkTask
from kraal.connectors.spark.sink import SparkSinkTask
from kraal.engine.record_path import RecordPath
from kraal.engine.sink.write_paths import SinkWriter, WritePath
from kraal.engine.sink.writers import collect_facts
from kraal.plugins.api import SinkBatch, SinkTask, TaskContext

DIRECT: dict[WritePath, SinkWriter] = {WritePath.DIRECT: cast("Any", None)}
TRANSFORMS = "which are processed one by one because of transforms"


class OverridingSink(FileStreamSinkTask):
    """Accepts no tables, because it overrides `write` without setting `takes_tables`."""

    @override
    def write(self, batch: SinkBatch) -> None:
        del batch


class JsonSink(SinkTask):
    """Accepts tables, and JSON for records that are processed one by one."""

    takes_tables = True
    values = "json"

    @override
    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        del config, context

    @override
    def write(self, batch: SinkBatch) -> None:
        del batch


@pytest.mark.parametrize(
    ("task", "writers", "why", "has_interval", "expected"),
    [
        (FileStreamSinkTask, DIRECT, None, False, True),
        (FileStreamSinkTask, DIRECT, None, True, False),
        (FileStreamSinkTask, {}, None, False, False),
        (FileStreamSinkTask, {}, TRANSFORMS, False, True),
        (FileStreamSinkTask, {}, TRANSFORMS, True, False),
        (JsonSink, {}, TRANSFORMS, False, False),
        (OverridingSink, {}, TRANSFORMS, False, False),
        (SparkSinkTask, {}, TRANSFORMS, False, False),
        (SparkSinkTask, {}, None, False, False),
    ],
)
def test_sink_waits_only_if_few_records_require_no_job_and_no_interval_is_set(
    task: type[SinkTask],
    writers: dict[WritePath, SinkWriter],
    why: str | None,
    *,
    has_interval: bool,
    expected: bool,
) -> None:
    path = RecordPath(cast("Any", None), None, why)
    assert collect_facts(task(), path, writers, can_wait=not has_interval).can_wait is expected
