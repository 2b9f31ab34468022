"""Sinks that require the schema of each record: their keys and values are envelopes, as JsonConverter writes them.

Records in Kafka that are read with JsonConverter and its schemas already have this form, so they are passed on as text,
unchanged, without a Spark job or with one that only reads them. All other records take the record path, which writes
the envelopes after the transforms.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from kraal.engine.columns.sink import ENVELOPE, find_format
from kraal.engine.record_path import RecordPath
from kraal.engine.sink.direct import COLUMNS
from kraal.engine.sink.range_reader import RangeReader
from kraal.engine.sink.write_paths import GetSpark, Put, ReadBatch
from kraal.engine.task_plugins import Converters, Plugins
from kraal.plugins.api import ColumnFormat, Converter, SinkTask

_JSON_CONVERTER: Final = "org.apache.kafka.connect.json.JsonConverter"
_REASON: Final = "which are processed one by one because the sink requires their schemas"


def needs_envelopes(task: SinkTask) -> bool:
    """Return whether a sink receives keys and values as envelopes."""
    return task.values == ENVELOPE


def make_envelope_converter(plugins: Plugins) -> Converter:
    """Return the converter that writes envelopes."""
    converter = plugins.converter_class(_JSON_CONVERTER)()
    converter.configure({"schemas.enable": "true"}, is_key=False)
    return converter


def are_envelopes(converters: Converters) -> bool:
    """Return whether the converters read envelopes, so that records can be passed on unchanged."""
    formats = {find_format(converters.key), find_format(converters.value)}
    return formats == {ColumnFormat.JSON_ENVELOPE}


def with_envelopes(path: RecordPath, converters: Converters, *, has_java_chain: bool) -> RecordPath:
    """Return the record path of a sink that requires envelopes; records are processed one by one unless they are some.

    Raises ValueError with Java transforms or converters, which return plain JSON.
    """
    if has_java_chain:
        raise ValueError(
            "This sink requires the schemas of records, which Java transforms and converters do not pass on; "
            "use transforms and converters in Python"
        )
    return path if path.why is not None or are_envelopes(converters) else replace(path, why=_REASON)


@dataclass(frozen=True, slots=True)
class EnvelopeWriter:
    """Passes records to the plugin as a frame of text, unchanged. Implements `SinkWriter`."""

    task: SinkTask
    reader: RangeReader

    def write(self, batch: ReadBatch, spark: GetSpark, put: Put) -> None:
        """Write the frame through the plugin."""
        if batch.table is None:
            raw = self.reader.read(spark().session, batch.ranges)
        else:
            raw = spark().tiny.createDataFrame(batch.table).coalesce(1)
        texts = [f"cast({name} as string) as {name}" for name in ("key", "value")]
        put(raw.selectExpr(*COLUMNS[:-2], *texts), values=self.task.values)
