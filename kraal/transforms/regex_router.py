"""RegexRouter: renames topics with a regular expression."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from typing_extensions import override

from kraal.config.java_regex import compile_pattern, java_regex
from kraal.config.key import ConfigDef, ConfigType, Importance, Key
from kraal.plugins.api import Transformation
from kraal.plugins.model.columns import Columns
from kraal.plugins.model.records import Record
from kraal.transforms.common.base import VERSION, PerTopic, parse_settings
from kraal.transforms.common.java_regex import replace_first


class RegexRouter(Transformation):
    """Renames topics whose whole name matches the expression, by replacing the first match in the name."""

    version: ClassVar[str] = VERSION
    config_def: ClassVar[ConfigDef] = ConfigDef(
        [
            Key(
                name="regex",
                type=ConfigType.STRING,
                validator=java_regex,
                importance=Importance.HIGH,
                doc="Regular expression that must match the whole topic name.",
                source="RegexRouter.ConfigName.REGEX",
            ),
            Key(
                name="replacement",
                type=ConfigType.STRING,
                importance=Importance.HIGH,
                doc="New topic name; $1 or ${name} refers to a group of the expression.",
                source="RegexRouter.ConfigName.REPLACEMENT",
            ),
        ]
    )

    schemaless_columns: ClassVar[bool] = True

    def __init__(self) -> None:
        self._regex, self._replacement = compile_pattern(""), ""
        self._new_names = PerTopic(self._rename_topic)

    @override
    def configure(self, config: Mapping[str, str]) -> None:
        values = parse_settings(self.config_def, config)
        self._regex, self._replacement = compile_pattern(values["regex"]), values["replacement"]

    @override
    def apply(self, record: Record) -> Record:
        topic = self._new_names(record.topic)
        return record if topic == record.topic else replace(record, topic=topic)

    def _rename_topic(self, topic: str) -> str:
        if self._regex.fullmatch(topic) is None:
            return topic
        return replace_first(self._regex, topic, self._replacement)

    @override
    def columns(self, given: Columns) -> Columns | None:
        if given.topic is None:
            return None
        return replace(given, topic=self.apply(Record(topic=given.topic)).topic)
