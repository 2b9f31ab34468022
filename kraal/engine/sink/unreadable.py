"""Finds out why a converter cannot read a record that has failed a job, by reading that record again.

The error of the column check contains the record's coordinates and Connect's message, but not the parser's reason.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Literal

from kraal.engine.failure_trace import UNREADABLE, root_cause
from kraal.engine.records.fault import Fault, Stage, make_fault
from kraal.engine.records.reports import ReadRecords
from kraal.engine.records.sink_pass import COLUMNS, RawRecord, raw_records
from kraal.engine.records.steps import Steps, with_record
from kraal.plugins.api import TopicPartition

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class UnreadableRecord:
    """A record that a converter cannot read."""

    part: Literal["key", "value"]
    partition: TopicPartition
    offset: int

    @staticmethod
    def parse(error: BaseException) -> UnreadableRecord | None:
        """Return the record that caused the error of a job; None if the error has another cause. May call the JVM."""
        match = UNREADABLE.match(root_cause(error))
        if match is None:
            return None
        partition = TopicPartition(match["topic"], int(match["partition"]))
        return UnreadableRecord("key" if match["part"] == "key" else "value", partition, int(match["offset"]))

    def find_fault(self, steps: Steps, read_again: ReadRecords) -> Fault | None:
        """Return why the record cannot be converted; None if it cannot be read again, or if the conversion succeeds."""
        try:
            coordinates = (self.partition.topic, self.partition.partition, self.offset)
            for raw in raw_records(read_again(self.partition, [self.offset]).select(list(COLUMNS))):
                if (raw.topic, raw.partition, raw.offset) == coordinates:
                    return self._fault_in(raw, steps)
        except Exception:
            log.warning(
                "Failed to read record %s-%d@%d again to find its error",
                *(self.partition.topic, self.partition.partition, self.offset), exc_info=True,
            )  # fmt: skip
        return None

    def _fault_in(self, raw: RawRecord, steps: Steps) -> Fault | None:
        is_key = self.part == "key"
        converter, data = (steps.key, raw.key) if is_key else (steps.value, raw.value)
        try:
            converter.decode(raw.topic, data)
        except Exception as exc:  # noqa: BLE001 - a converter may raise anything
            fault = make_fault(
                exc,
                stage=Stage.KEY_CONVERTER if is_key else Stage.VALUE_CONVERTER,
                class_name=steps.key_class if is_key else steps.value_class,
                topic=raw.topic,
            )
            return with_record(fault, partition=raw.partition, offset=raw.offset, record=raw.text)
        return None
