"""Texts for users about the totals of a connector, as `GET /connectors/NAME/ledger` returns them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from kraal.core.printable import format_count

_SINK_PARTITION_KEYS: Final = frozenset({"kafka_topic", "kafka_partition"})


def format_partition(fields: Mapping[str, Any]) -> str:
    """Return the name of a partition, such as `orders-0`; of a source, its fields as JSON."""
    if fields.keys() == _SINK_PARTITION_KEYS:
        return f"{fields['kafka_topic']}-{fields['kafka_partition']}"
    return json.dumps(dict(fields), ensure_ascii=False)


def format_position(position: Any) -> str:
    """Return a position; `-` before the first offset of a source."""
    if position is None:
        return "-"
    return f"{position:,}" if isinstance(position, int) else json.dumps(position, ensure_ascii=False)


def format_verdict(*, break_count: int, uncounted_count: int) -> str:
    """Return whether the counted records are accounted for, in a few words."""
    if break_count:
        return format_count(break_count, "break")
    return f"ok, {uncounted_count:,} uncounted" if uncounted_count else "ok"
