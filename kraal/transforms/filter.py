"""Filter: drops the records that its predicate selects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from typing_extensions import override

from kraal.config.key import ConfigDef
from kraal.plugins.api import Transformation
from kraal.plugins.model.records import Record
from kraal.transforms.common.base import VERSION


class Filter(Transformation):
    """Drops every record to which the transform is applied. A predicate selects these records."""

    version: ClassVar[str] = VERSION
    config_def: ClassVar[ConfigDef] = ConfigDef()

    @override
    def configure(self, config: Mapping[str, str]) -> None:
        del config

    @override
    def apply(self, record: Record) -> Record | None:
        return None
