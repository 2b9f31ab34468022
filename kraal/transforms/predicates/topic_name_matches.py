"""TopicNameMatches: selects records whose topic matches a regular expression."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from typing_extensions import override

from kraal.config.checks import all_of, non_empty
from kraal.config.java_regex import compile_pattern, java_regex
from kraal.config.key import ConfigDef, ConfigType, Importance, Key
from kraal.plugins.api import Predicate
from kraal.plugins.model.columns import Columns
from kraal.plugins.model.records import Record
from kraal.transforms.common.base import VERSION, PerTopic, parse_settings


class TopicNameMatches(Predicate):
    """Selects records whose whole topic name matches the expression."""

    version: ClassVar[str] = VERSION
    config_def: ClassVar[ConfigDef] = ConfigDef(
        [
            Key(
                name="pattern",
                type=ConfigType.STRING,
                validator=all_of(non_empty, java_regex),
                importance=Importance.MEDIUM,
                doc="Regular expression that must match the whole topic name.",
                source="TopicNameMatches.PATTERN_CONFIG",
            )
        ]
    )

    def __init__(self) -> None:
        self._pattern = compile_pattern("")
        self._matches = PerTopic(self._match)

    @override
    def configure(self, config: Mapping[str, str]) -> None:
        self._pattern = compile_pattern(parse_settings(self.config_def, config)["pattern"])

    @override
    def test(self, record: Record) -> bool:
        return self._matches(record.topic)

    def _match(self, topic: str) -> bool:
        return self._pattern.fullmatch(topic) is not None

    @override
    def known(self, given: Columns) -> bool | None:
        return None if given.topic is None else self.test(Record(topic=given.topic))
