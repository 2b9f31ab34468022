"""DropHeaders: removes headers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from typing_extensions import override

from kraal.config.key import ConfigDef, ConfigType, Importance, Key
from kraal.plugins.api import Transformation
from kraal.plugins.model.columns import Columns
from kraal.plugins.model.records import Record
from kraal.transforms.common.base import VERSION, parse_settings, validate_distinct_entries


class DropHeaders(Transformation):
    """Removes all headers with the configured names."""

    version: ClassVar[str] = VERSION
    config_def: ClassVar[ConfigDef] = ConfigDef(
        [
            Key(
                name="headers",
                type=ConfigType.LIST,
                validator=validate_distinct_entries,
                importance=Importance.HIGH,
                doc="Names of the headers to remove.",
                source="DropHeaders.HEADERS_FIELD",
            )
        ]
    )

    def __init__(self) -> None:
        self._names: frozenset[str] = frozenset()

    @override
    def configure(self, config: Mapping[str, str]) -> None:
        self._names = frozenset(parse_settings(self.config_def, config)["headers"])

    @override
    def apply(self, record: Record) -> Record:
        return replace(
            record, headers=tuple(header for header in record.headers if header.key not in self._names)
        )

    @override
    def columns(self, given: Columns) -> Columns | None:
        headers = tuple(header for header in given.headers if header.key not in self._names)
        return replace(given, headers=headers, dropped=given.dropped | self._names)
