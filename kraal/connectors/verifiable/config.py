"""The config keys of the verifiable connectors. Source: VerifiableSourceTask and VerifiableSinkTask (Kafka 4.3.0).

Java does not declare these keys, so an invalid value fails the tasks. Kraal rejects the config instead.
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
            doc="Topic to write records to.",
            source="VerifiableSourceTask.TOPIC_CONFIG",
        ),
        Key(
            name="throughput",
            type=ConfigType.LONG,
            importance=Importance.HIGH,
            doc="Number of records that each task writes per second; negative: no limit; 0: only one record.",
            source="VerifiableSourceTask.THROUGHPUT_CONFIG",
        ),
        Key(
            name="complete.record.data",
            type=ConfigType.BOOLEAN,
            default=False,
            importance=Importance.LOW,
            doc="Whether a record's value is a struct of all printed fields instead of only the sequence number.",
            source="VerifiableSourceTask.COMPLETE_RECORD_DATA_CONFIG",
        ),
    ]
)

VERIFIABLE_SINK: Final = ConfigDef([])
