"""InsertHeader: adds a constant header."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from typing_extensions import override

from kraal.config.checks import non_null
from kraal.config.key import ConfigDef, ConfigType, Importance, Key
from kraal.plugins.api import Transformation
from kraal.plugins.model.columns import Columns
from kraal.plugins.model.records import Header, Record
from kraal.plugins.values.text import parse_string
from kraal.transforms.common.base import VERSION, parse_settings


def _make_key(name: str, doc: str) -> Key:
    return Key(
        name=name,
        type=ConfigType.STRING,
        validator=non_null,
        importance=Importance.HIGH,
        doc=doc,
        source="InsertHeader",
    )


class InsertHeader(Transformation):
    """Adds a header with a constant value to each record. The type is inferred from the text of the value."""

    version: ClassVar[str] = VERSION
    config_def: ClassVar[ConfigDef] = ConfigDef(
        [
            _make_key("header", "Name of the header."),
            _make_key(
                "value.literal",
                "Value of the header: a number, true, false, null, a date, or a list or map as in JSON; "
                "anything else is a string.",
            ),
        ]
    )

    def __init__(self) -> None:
        self._header = Header("", None, None)

    @override
    def configure(self, config: Mapping[str, str]) -> None:
        values = parse_settings(self.config_def, config)
        schema, value = parse_string(values["value.literal"])
        self._header = Header(values["header"], schema, value)

    @override
    def apply(self, record: Record) -> Record:
        return replace(record, headers=(*record.headers, self._header))

    @override
    def columns(self, given: Columns) -> Columns | None:
        return replace(given, headers=(*given.headers, self._header))
