"""The keys of the file connectors. Source: FileStreamSourceConnector and …SinkConnector (Kafka 4.3.0)."""

from __future__ import annotations

from typing import Final

from kraal.config.checks import non_empty
from kraal.config.key import ConfigDef, ConfigType, Importance, Key

DEFAULT_BATCH_SIZE: Final = 2000
"""Default of `batch.size`: the maximum number of lines per poll of Java's file source."""

FILE_SOURCE: Final = ConfigDef(
    [
        Key(
            name="file",
            type=ConfigType.STRING,
            default=None,
            importance=Importance.HIGH,
            doc="Path of the file to read, on the worker's machine. Standard input is not supported.",
            source="FileStreamSourceConnector.FILE_CONFIG",
        ),
        Key(
            name="topic",
            type=ConfigType.STRING,
            validator=non_empty,
            importance=Importance.HIGH,
            doc="Topic to write lines to.",
            source="FileStreamSourceConnector.TOPIC_CONFIG",
        ),
        Key(
            name="batch.size",
            type=ConfigType.INT,
            default=DEFAULT_BATCH_SIZE,
            importance=Importance.LOW,
            doc="Maximum number of lines in a batch.",
            no_effect="batches are limited by bytes",
            source="FileStreamSourceConnector.TASK_BATCH_SIZE_CONFIG",
        ),
    ]
)

FILE_SINK: Final = ConfigDef(
    [
        Key(
            name="file",
            type=ConfigType.STRING,
            default=None,
            importance=Importance.HIGH,
            doc="Path of the file to append to, on the worker's machine. Default: standard output.",
            source="FileStreamSinkConnector.FILE_CONFIG",
        ),
    ]
)
