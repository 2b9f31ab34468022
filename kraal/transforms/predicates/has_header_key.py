"""HasHeaderKey: selects records that have a header with the configured name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from typing_extensions import override

from kraal.config.checks import non_empty
from kraal.config.key import ConfigDef, ConfigType, Importance, Key
from kraal.plugins.api import Predicate
from kraal.plugins.model.columns import Columns
from kraal.plugins.model.records import Record
from kraal.transforms.common.base import VERSION, parse_settings


class HasHeaderKey(Predicate):
    """Selects records that have at least one header with the configured name."""

    version: ClassVar[str] = VERSION
    config_def: ClassVar[ConfigDef] = ConfigDef(
        [
            Key(
                name="name",
                type=ConfigType.STRING,
                validator=non_empty,
                importance=Importance.MEDIUM,
                doc="Name of the header.",
                source="HasHeaderKey.NAME_CONFIG",
            )
        ]
    )

    def __init__(self) -> None:
        self._name = ""

    @override
    def configure(self, config: Mapping[str, str]) -> None:
        self._name = parse_settings(self.config_def, config)["name"]

    @override
    def test(self, record: Record) -> bool:
        return any(header.key == self._name for header in record.headers)

    @override
    def known(self, given: Columns) -> bool | None:
        if any(header.key == self._name for header in given.headers):
            return True
        return None if "headers" in given.has and self._name not in given.dropped else False
