"""Where a streaming query in real time keeps its checkpoint, without Spark."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from kraal.engine.kafka.writer import WritePlan
from kraal.engine.streaming import real_time_query as stream_query
from kraal.engine.streaming.real_time_query import CHECKPOINTS, StreamQuery


@pytest.mark.parametrize("name", ["{outside}/elsewhere-0", "../../up-0", "plain-0", "a" * 300 + "-0"])
def test_the_checkpoint_of_any_connector_is_one_directory_of_its_own_in_scratch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    marked = MagicMock()
    marked.writeStream.format.return_value = writer = MagicMock()
    writer.options.return_value = writer.option.return_value = writer
    writer.outputMode.return_value.trigger.return_value = writer
    monkeypatch.setattr(stream_query, "DeliveryTracker", MagicMock())
    monkeypatch.setattr(stream_query, "_marked", lambda *_: marked)
    scratch = tmp_path / "scratch"
    stream: Any = SimpleNamespace(read=lambda _: None, topic=None, batch_ms=1)
    plan = WritePlan(converters=None, options={}, key_schema=None, value_schema=None)
    query = StreamQuery(MagicMock(), stream, plan, scratch, name.format(outside=tmp_path))
    ((_, given),) = [call.args for call in writer.option.call_args_list]
    checkpoint = Path(given)
    assert checkpoint.resolve().parent == scratch / CHECKPOINTS
    assert checkpoint.is_dir()
    query.forget()
    assert list((scratch / CHECKPOINTS).iterdir()) == []
