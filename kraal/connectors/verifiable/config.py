"""The keys of the verifiable connectors. Source: VerifiableSourceTask and VerifiableSinkTask (Kafka 4.3.0).

Java declares none of them, so an invalid value fails the task there; Kraal rejects the config.
"""

from __future__ import annotations

from typing import Final

from kraal.config.checks import non_empty
from kraal.config.key import ConfigDef, ConfigType, Importance, Key

VERIFIABLE_SOURCE: Final = ConfigDef(
    [
        Key(
            name="topic",
            type=ConfigType.STRING,
            validator=non_empty,
            importance=Importance.HIGH,
            doc="The topic that all records are written to.",
            source="VerifiableSourceTask.TOPIC_CONFIG",
        ),
        Key(
            name="throughput",
            type=ConfigType.LONG,
            importance=Importance.HIGH,
            doc="How many records a second each task writes. A negative number is as fast as it goes, 0 is one record"
            " and no more.",
            source="VerifiableSourceTask.THROUGHPUT_CONFIG",
        ),
        Key(
            name="complete.record.data",
            type=ConfigType.BOOLEAN,
            default=False,
            importance=Importance.LOW,
            doc="Whether a record's value is a struct of all that is printed of it, in place of its number alone.",
            source="VerifiableSourceTask.COMPLETE_RECORD_DATA_CONFIG",
        ),
    ]
)

VERIFIABLE_SINK: Final = ConfigDef([])
