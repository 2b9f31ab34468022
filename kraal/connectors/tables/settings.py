"""The settings of the core of the table sinks. Does not import Arrow, because configs are validated with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

APPEND: Final = "append"
UPSERT: Final = "upsert"
CDC: Final = "cdc"
MODES: Final = (APPEND, UPSERT, CDC)
"""The values of `write.mode`."""

EVOLVE: Final = "evolve"
FAIL: Final = "fail"
IGNORE: Final = "ignore"
DEAD_LETTER: Final = "dead-letter"
POLICIES: Final = (EVOLVE, FAIL, IGNORE, DEAD_LETTER)
"""The values of `schema.evolution`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSettings:
    """The settings that determine the changes."""

    mode: str
    id_columns: tuple[str, ...] = ()
    """The columns that identify a row; empty for the fields of the record's key."""
    placeholder: str = "__debezium_unavailable_value"
    """The value that Debezium sends for a column whose value it does not have."""
    keeps_missing: bool = False
    """Whether columns that a record does not have keep their values in a row that it replaces."""
    requires_schema: bool = False
    """Whether values without a schema are errors. Their missing fields cannot be distinguished from null."""
    marks_deletes: bool = False
    """Whether a delete sets the column `debezium.DELETED` of its row instead of removing the row."""


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """The settings of a writer."""

    changes: ChangeSettings
    evolution: str
