"""RecordIsTombstone: selects records without a value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from typing_extensions import override

from kraal.config.key import ConfigDef
from kraal.plugins.api import Predicate
from kraal.plugins.model.columns import Columns
from kraal.plugins.model.records import Record
from kraal.transforms.common.base import VERSION


class RecordIsTombstone(Predicate):
    """Selects records whose value is null."""

    version: ClassVar[str] = VERSION
    config_def: ClassVar[ConfigDef] = ConfigDef()

    @override
    def configure(self, config: Mapping[str, str]) -> None:
        del config

    @override
    def test(self, record: Record) -> bool:
        return record.value is None

    @override
    def known(self, given: Columns) -> bool | None:
        if given.value.is_nothing:
            return True
        return False if given.value.sure else None
