"""Record timestamps for Spark's Kafka writer, which has no column for them.

The timestamp is added as the last header of each record, as text; a producer interceptor removes that header and sets
the timestamp in the JVM, so no record is processed in Python. The class is compiled when a session first uses it
(`kraal.engine.session.janino`), and sent to the executors as a jar.

Only the last header is removed: other headers of the same name remain.
Source: KafkaProducer.doSend, ConnectUtils.checkAndConvertTimestamp (a timestamp below 0 is missing; Kafka 4.4.0).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kraal.engine.session.janino import load_class

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

HEADER: Final = "kraal.timestamp"
INTERCEPTORS: Final = "kafka.interceptor.classes"
_CLASS: Final = "kraal.RecordTimes"


def with_time(headers: Column | None, timestamp: Column, offset: Column | None = None) -> Column:
    """Return a record's headers, followed by a header with its timestamp, which the interceptor removes.

    `offset` is the source offset, which the interceptor of `PairTracker` removes together with the timestamp.
    """
    from pyspark.sql import functions  # noqa: PLC0415 - heavy; loaded after the start of Spark

    text = functions.unix_millis(timestamp).cast("string")
    if offset is not None:
        no_time, space = functions.lit("-1"), functions.lit(" ")
        text = functions.concat(functions.coalesce(text, no_time), space, offset.cast("string"))
    return with_last(headers, HEADER, text)


def with_last(headers: Column | None, name: str, text: Column) -> Column:
    """Return a record's headers, followed by a header with a text value."""
    from pyspark.sql import functions  # noqa: PLC0415 - as above

    value = text.cast("binary").alias("value")
    last_header = functions.array(functions.struct(functions.lit(name).alias("key"), value))
    if headers is None:
        return last_header
    return functions.when(headers.isNull(), last_header).otherwise(functions.concat(headers, last_header))


def with_interceptor(options: Mapping[str, str], class_name: str) -> dict[str, str]:
    """Return Kafka writer options with an interceptor of Kraal, followed by the user's interceptors."""
    user_classes = options.get(INTERCEPTORS)
    return {**options, INTERCEPTORS: f"{class_name},{user_classes}" if user_classes else class_name}


def with_record_times(frame: DataFrame, options: Mapping[str, str]) -> Mapping[str, str]:
    """Return Kafka writer options for a DataFrame whose column `timestamp` was added to the headers (`with_time`).

    Return `options` if there is no such column. Must be called on a job thread.
    """
    if "timestamp" not in frame.columns:
        return options
    load_class(frame.sparkSession.sparkContext, _CLASS)
    return with_interceptor(options, _CLASS)
