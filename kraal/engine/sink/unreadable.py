"""A record that its converter cannot read, so that a job failed: located by its offset, and read again, alone.

The check of a column can name the record and Connect's message, but not the parser's reason. Only a job that has failed
reads a record again, so that reading good records costs nothing more.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Literal

from kraal.engine.failure_trace import UNREADABLE, root_cause
from kraal.engine.records.fault import Fault, Stage, make_fault
from kraal.engine.records.reports import ReadAgain
from kraal.engine.records.sink_pass import COLUMNS, Raw, raw_records
from kraal.engine.records.steps import Steps, with_record
from kraal.plugins.api import TopicPartition

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A record that a converter cannot read."""

    part: Literal["key", "value"]
    place: TopicPartition
    offset: int

    @staticmethod
    def of(error: BaseException) -> Unreadable | None:
        """Return the record that an error of a job names; None if it failed for another reason. Calls the JVM."""
        match = UNREADABLE.match(root_cause(error))
        if match is None:
            return None
        place = TopicPartition(match["topic"], int(match["partition"]))
        return Unreadable("key" if match["part"] == "key" else "value", place, int(match["offset"]))

    def fault(self, steps: Steps, read_again: ReadAgain) -> Fault | None:
        """Convert the record alone, and return its failure; None if it cannot be read again, or can be converted."""
        try:
            coordinates = (self.place.topic, self.place.partition, self.offset)
            for raw in raw_records(read_again(self.place, [self.offset]).select(list(COLUMNS))):
                if (raw.topic, raw.partition, raw.offset) == coordinates:
                    return self._fault_in(raw, steps)
        except Exception:
            log.warning(
                "Failed to read record %s-%d@%d again to find its error",
                *(self.place.topic, self.place.partition, self.offset), exc_info=True,
            )  # fmt: skip
        return None

    def _fault_in(self, raw: Raw, steps: Steps) -> Fault | None:
        is_key = self.part == "key"
        converter, data = (steps.key, raw.key) if is_key else (steps.value, raw.value)
        try:
            converter.decode(raw.topic, data)
        except Exception as exc:  # noqa: BLE001 - whatever a converter raises
            fault = make_fault(
                exc,
                stage=Stage.KEY_CONVERTER if is_key else Stage.VALUE_CONVERTER,
                class_name=steps.key_class if is_key else steps.value_class,
                topic=raw.topic,
            )
            return with_record(fault, partition=raw.partition, offset=raw.offset, record=raw.text)
        return None
