"""Records' own timestamps on their way through Spark's Kafka writer, which has no column for them.

The time rides as the last header of each record, as text, and an interceptor of Kafka's producer takes that header off
again and puts the time where it belongs, in the JVM, so that nothing is done record by record in Python. The class is
compiled when a session first needs it (`kraal.spark.janino`), and goes to the executors as a jar.

Taken off is the last header and no other: a record that has a header of the same name keeps it.
Source: KafkaProducer.doSend, ConnectUtils.checkAndConvertTimestamp (a time below 0 is none; Kafka 4.3.0).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kraal.spark.janino import loaded

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

HEADER: Final = "kraal.timestamp"
INTERCEPTORS: Final = "kafka.interceptor.classes"
_CLASS: Final = "kraal.RecordTimes"
_SOURCE: Final = """
package kraal;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import org.apache.kafka.clients.producer.ProducerInterceptor;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeaders;

public final class RecordTimes implements ProducerInterceptor {
    public ProducerRecord onSend(ProducerRecord record) {
        Header[] all = record.headers().toArray();
        int last = all.length - 1;
        if (last < 0 || !all[last].key().equals("kraal.timestamp")) {
            return record;
        }
        byte[] text = all[last].value();
        long time = text == null ? -1L : Long.parseLong(new String(text, StandardCharsets.US_ASCII));
        Header[] own = (Header[]) Arrays.copyOf(all, last);
        return new ProducerRecord(
            record.topic(), record.partition(), time < 0 ? null : Long.valueOf(time),
            record.key(), record.value(), new RecordHeaders(own)
        );
    }

    public void onAcknowledgement(RecordMetadata metadata, Exception exception) {}

    public void close() {}

    public void configure(Map configs) {}
}
"""


def with_time(headers: Column | None, timestamp: Column) -> Column:
    """Return a record's headers with its time behind them, for `carried` to take off."""
    from pyspark.sql import functions  # noqa: PLC0415 - loaded when Spark is

    return with_last(headers, HEADER, functions.unix_millis(timestamp).cast("string"))


def with_last(headers: Column | None, name: str, text: Column) -> Column:
    """Return a record's headers with one of a text behind them."""
    from pyspark.sql import functions  # noqa: PLC0415 - as above

    value = text.cast("binary").alias("value")
    added = functions.array(functions.struct(functions.lit(name).alias("key"), value))
    if headers is None:
        return added
    return functions.when(headers.isNull(), added).otherwise(functions.concat(headers, added))


def intercepted(options: Mapping[str, str], of_class: str) -> dict[str, str]:
    """Return a Kafka writer's options with an interceptor of ours; a user's own come after it."""
    own = options.get(INTERCEPTORS)
    return {**options, INTERCEPTORS: f"{of_class},{own}" if own else of_class}


def carried(frame: DataFrame, options: Mapping[str, str]) -> Mapping[str, str]:
    """Return a Kafka writer's options for a frame whose column `timestamp`, if it has one, is to be the records' time.

    Job thread. A user's own interceptors come after ours.
    """
    if "timestamp" not in frame.columns:
        return options
    loaded(frame.sparkSession.sparkContext, _CLASS, _SOURCE)
    return intercepted(options, _CLASS)
