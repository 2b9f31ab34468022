"""Waits until a connector has delivered the changes of its source that a proof could see."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from kraal.core.offsets import Offset, SourcePartition
from kraal.plugins.api import NotComparable
from kraal.plugins.model.keyed_source import KeyedSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIMEOUT_S: Final = 60.0
"""Maximum time in which the connector must deliver the changes."""
POLL_S: Final = 0.5

ReadOffsets = Callable[[], Mapping[SourcePartition, Offset]]


def wait_for_delivery(
    source: KeyedSource,
    spark: SparkSession,
    read_offsets: ReadOffsets,
    pause: Callable[[float], None],
    *,
    count: int,
    now_s: Callable[[], float] = time.monotonic,
) -> None:
    """Wait until the connector has delivered all changes that are visible now.

    `pause` waits for a number of seconds, and raises NotComparable if the proof was cancelled. `count` is the number of
    rows that differ, for the error. Raises NotComparable after `TIMEOUT_S`.
    """
    position = source.read_position(spark)
    deadline_s = now_s() + TIMEOUT_S
    while True:
        offsets = read_offsets()
        if source.has_stored(offsets, position):
            return
        if source.has_received(spark, position):
            # The source reports no more than the receipt. The records may still be on their way to the topics.
            pause(source.settle_s)
            return
        if now_s() > deadline_s:
            raise NotComparable(
                f"{count:,} rows differ from the last records of their keys, but "
                f"{source.describe_delay(offsets, position)}"
            )
        pause(POLL_S)
