"""Tests for the conditions under which a sink backlog takes the column path."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from typing_extensions import override

from kraal.converters.avro.converter import AvroConverter
from kraal.converters.json.converter import JsonConverter
from kraal.converters.primitive.bytearray import ByteArrayConverter
from kraal.converters.primitive.numbers import LongConverter
from kraal.converters.primitive.string import StringConverter
from kraal.engine.columns.sink import SinkColumns
from kraal.engine.columns.source import DOUBT
from kraal.plugins.api import Converter, DataException, HeaderConverter, Schema
from kraal.plugins.transform_chain import Chain
from kraal.plugins.values.simple_headers import SimpleHeaderConverter
from tests.fakes.spark.column_path import STRING_CONVERTER, chain_steps
from tests.fakes.spark.plugins import Text


class Frame:
    """A DataFrame with or without rows in doubt."""

    def __init__(self, *, is_doubtful: bool) -> None:
        self.is_doubtful = is_doubtful
        self.log: list[str] = []

    def persist(self) -> Frame:
        self.log.append("persist")
        return self

    def count(self) -> int:
        self.log.append("count")
        if self.is_doubtful:
            raise RuntimeError(f"[USER_RAISED_EXCEPTION] {DOUBT}")
        return 1

    def unpersist(self) -> None:
        self.log.append("unpersist")


@pytest.fixture
def set_frame(monkeypatch: pytest.MonkeyPatch) -> Callable[[Frame | None], None]:
    """Return a function that sets the DataFrame of all further batches."""

    def set_result(frame: Frame | None) -> None:
        monkeypatch.setattr(SinkColumns, "_transform", lambda *_: frame)

    return set_result


@pytest.fixture
def columns() -> SinkColumns:
    return SinkColumns(chain_steps(Chain(), STRING_CONVERTER), "text")


def test_sink_is_called_only_if_no_row_is_in_doubt(columns: SinkColumns, set_frame: Any) -> None:
    frame = Frame(is_doubtful=False)
    set_frame(frame)
    assert columns.write(dict, lambda _: frame.log.append("put"), all_or_nothing=False)
    assert frame.log == ["persist", "count", "put", "unpersist"]
    frame.log.clear()
    set_frame(Frame(is_doubtful=True))
    assert not columns.write(dict, lambda _: frame.log.append("put"), all_or_nothing=False)
    assert frame.log == []


def test_all_or_nothing_sink_is_called_without_a_check(columns: SinkColumns, set_frame: Any) -> None:
    def compute(frame: Any) -> None:
        frame.count()

    frame = Frame(is_doubtful=True)
    set_frame(frame)
    assert not columns.write(dict, compute, all_or_nothing=True)
    assert frame.log == ["count"]


@pytest.mark.parametrize("all_or_nothing", [True, False])
def test_sink_error_is_not_a_doubt(columns: SinkColumns, set_frame: Any, *, all_or_nothing: bool) -> None:
    def fail(_: object) -> None:
        raise OSError("no space left")

    frame = Frame(is_doubtful=False)
    set_frame(frame)
    with pytest.raises(OSError, match="no space left"):
        columns.write(dict, fail, all_or_nothing=all_or_nothing)
    assert frame.log == ([] if all_or_nothing else ["persist", "count", "unpersist"])


def test_each_failed_attempt_doubles_the_number_of_skipped_batches(
    columns: SinkColumns, set_frame: Any
) -> None:
    def column_attempts(batch_count: int) -> list[int]:
        """Return the numbers of the batches that attempted the column path."""
        attempts: list[int] = []
        frame = Frame(is_doubtful=True)
        set_frame(frame)
        for number in range(batch_count):
            columns.write(dict, lambda _: None, all_or_nothing=False)
            if frame.log:
                attempts.append(number)
                frame.log.clear()
        return attempts

    assert column_attempts(300) == [0, 2, 5, 10, 19, 36, 69, 134, 199, 264]
    set_frame(Frame(is_doubtful=False))
    while not columns.write(dict, lambda _: None, all_or_nothing=False):
        pass
    assert column_attempts(3) == [0, 2]


class PickyText(StringConverter):
    """Rejects every value, although it inherits a column format."""

    @override
    def decode(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        raise DataException("picky")


class RenamedText(StringConverter):
    """Overrides no methods."""


@pytest.mark.parametrize(
    ("converter", "config", "expected"),
    [
        (StringConverter, {}, True),
        (StringConverter, {"converter.encoding": "ISO-8859-1"}, False),
        (ByteArrayConverter, {}, True),
        (JsonConverter, {}, True),
        (JsonConverter, {"schemas.enable": "false"}, True),
        (JsonConverter, {"schema.content": '{"type":"string"}'}, False),
        (LongConverter, {}, False),
        (AvroConverter, {"schema.registry.url": "http://registry"}, False),
        (Text, {}, False),
        (PickyText, {}, False),
        (RenamedText, {}, True),
    ],
)
def test_column_path_requires_a_declared_column_format(
    converter: type[Converter], config: dict[str, str], *, expected: bool
) -> None:
    plugin = converter()
    plugin.configure(config, is_key=False)
    steps = chain_steps(Chain(), STRING_CONVERTER)
    assert (SinkColumns.of(replace(steps, value=plugin), "text") is not None) is expected
    assert (SinkColumns.of(replace(steps, key=plugin), "text") is not None) is expected


@pytest.mark.parametrize(
    ("converter", "expected"),
    [
        (SimpleHeaderConverter, True),
        (StringConverter, True),
        (ByteArrayConverter, True),
        (JsonConverter, False),
        (Text, False),
        (PickyText, False),
    ],
)
def test_column_path_requires_a_header_converter_that_accepts_any_header(
    converter: type[HeaderConverter], *, expected: bool
) -> None:
    plugin = converter()
    plugin.configure({}, is_key=False)
    sink_columns = SinkColumns.of(replace(chain_steps(Chain(), STRING_CONVERTER), headers=plugin), "text")
    assert (sink_columns is not None) is expected
