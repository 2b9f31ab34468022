"""TimestampRouter: renames topics based on the record's timestamp."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from typing_extensions import override

from kraal.config.key import ConfigDef, ConfigType, Importance, Key
from kraal.plugins.api import Transformation
from kraal.plugins.model.columns import Columns
from kraal.plugins.model.records import DataException, Record
from kraal.plugins.model.schema import Schema
from kraal.plugins.values.java_values import java_text
from kraal.transforms.common.base import VERSION, parse_settings
from kraal.transforms.common.date_pattern import Element, UnsupportedPattern, format_date, parse_pattern
from kraal.transforms.common.errors import ConfigException
from kraal.transforms.common.structs import as_text


class TimestampRouter(Transformation):
    """Builds the topic name from a format with placeholders for the old name and the record's timestamp."""

    version: ClassVar[str] = VERSION
    config_def: ClassVar[ConfigDef] = ConfigDef(
        [
            Key(
                name="topic.format",
                type=ConfigType.STRING,
                default="${topic}-${timestamp}",
                importance=Importance.HIGH,
                doc="Format of the new topic name: ${topic} is the old name and ${timestamp} the record's timestamp.",
                source="TimestampRouter.ConfigName.TOPIC_FORMAT",
            ),
            Key(
                name="timestamp.format",
                type=ConfigType.STRING,
                default="yyyyMMdd",
                importance=Importance.HIGH,
                doc="Format of the timestamp, in UTC: a pattern of java.text.SimpleDateFormat.",
                source="TimestampRouter.ConfigName.TIMESTAMP_FORMAT",
            ),
        ]
    )

    schemaless_columns: ClassVar[bool] = True

    def __init__(self) -> None:
        self._topic_format = ""
        self._pattern: tuple[Element, ...] = ()

    @override
    def configure(self, config: Mapping[str, str]) -> None:
        values = parse_settings(self.config_def, config)
        self._topic_format = values["topic.format"]
        try:
            self._pattern = parse_pattern(values["timestamp.format"])
        except UnsupportedPattern as exc:
            raise ConfigException(
                f"Invalid value {values['timestamp.format']} for configuration timestamp.format: {exc}"
            ) from exc

    @override
    def apply(self, record: Record) -> Record:
        if record.timestamp_ms is None:
            raise DataException(f"Timestamp missing on record: {_format_record(record)}")
        topic = self._topic_format.replace("${topic}", record.topic)
        return replace(
            record, topic=topic.replace("${timestamp}", format_date(self._pattern, record.timestamp_ms))
        )

    @override
    def columns(self, given: Columns) -> Columns | None:
        if given.topic is None or "timestamp" in given.has:
            return None
        new_record = self.apply(Record(topic=given.topic, timestamp_ms=given.timestamp_ms))
        return replace(given, topic=new_record.topic)


def _format_record(record: Record) -> str:
    """Return a record in the format of ConnectRecord.toString."""
    headers = ", ".join(
        f"ConnectHeader(key={header.key}, value={java_text(header.value)}, schema={_format_schema(header.schema)})"
        for header in record.headers
    )
    return (
        f"ConnectRecord{{topic='{record.topic}', kafkaPartition={java_text(record.partition)}, "
        f"key={java_text(record.key)}, keySchema={_format_schema(record.key_schema)}, value={java_text(record.value)}, "
        f"valueSchema={_format_schema(record.value_schema)}, timestamp={java_text(record.timestamp_ms)}, "
        f"headers=ConnectHeaders(headers={f'[{headers}]' if headers else ''})}}"
    )


def _format_schema(schema: Schema | None) -> str:
    return "null" if schema is None else as_text(schema)
