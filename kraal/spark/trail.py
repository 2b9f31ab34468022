"""How far a streaming query has come: what Kafka has acknowledged of each partition, known at any moment.

Spark tells how far it came only when one of its long batches ends, and of a batch that is stopped never. But the
records themselves can tell: each carries its time and its source offset as the last header, and an interceptor of
Kafka's producer takes that off again, puts the time where it belongs, and notes the offset until the record is
acknowledged. Within a partition records are sent and acknowledged in order (one request in flight, or idempotence), so
the last offset that was acknowledged is how far the partition is copied. So a query may be stopped at any time, and
what is stored is what is written.

The interceptor's class is loaded by the loader that driver and executors of a local master have in common: only there
can it be asked. Source: KafkaProducer.doSend, ProducerInterceptors.onSendError (Kafka 4.3.0), which runs on the
sender's own thread for what never left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kraal.plugins.api import TopicPartition
from kraal.spark.janino import loaded
from kraal.spark.record_times import intercepted, with_last

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

HEADER: Final = "kraal.trail"
_CLASS: Final = "kraal.Trail"
_RUN: Final = "kafka.kraal.run"
_IDEMPOTENCE: Final = "kafka.enable.idempotence"
_IN_FLIGHT: Final = "kafka.max.in.flight.requests.per.connection"
_SOURCE: Final = """
package kraal;

import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Iterator;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.producer.ProducerInterceptor;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeaders;

public final class Trail implements ProducerInterceptor {
    public static final Map RUNS = new ConcurrentHashMap();
    private Map places = new ConcurrentHashMap();

    public void configure(Map configs) {
        String run = String.valueOf(configs.get("kraal.run"));
        RUNS.putIfAbsent(run, places);
        places = (Map) RUNS.get(run);
    }

    public ProducerRecord onSend(ProducerRecord record) {
        Header[] all = record.headers().toArray();
        int last = all.length - 1;
        String text = new String(all[last].value(), StandardCharsets.US_ASCII);
        int blank = text.indexOf(' ');
        long time = Long.parseLong(text.substring(0, blank));
        at(record.topic(), record.partition().intValue()).sent(Long.parseLong(text.substring(blank + 1)));
        Header[] own = (Header[]) Arrays.copyOf(all, last);
        return new ProducerRecord(
            record.topic(), record.partition(), time < 0 ? null : Long.valueOf(time),
            record.key(), record.value(), new RecordHeaders(own)
        );
    }

    public void onAcknowledgement(RecordMetadata metadata, Exception exception) {
        if (metadata != null) {
            at(metadata.topic(), metadata.partition()).ended(exception == null);
        }
    }

    public void close() {}

    private Place at(String topic, int partition) {
        String name = topic + " " + partition;
        Place place = (Place) places.get(name);
        if (place == null) {
            places.putIfAbsent(name, new Place());
            place = (Place) places.get(name);
        }
        return place;
    }

    static final class Place {
        private final ArrayDeque waiting = new ArrayDeque();
        private Thread sender;
        private boolean broken;
        private long done = -1L;
        private long written;

        synchronized void sent(long offset) {
            sender = Thread.currentThread();
            waiting.addLast(Long.valueOf(offset));
        }

        synchronized void ended(boolean good) {
            if (!good && Thread.currentThread() == sender) {
                waiting.pollLast();
                return;
            }
            Long offset = (Long) waiting.pollFirst();
            broken = broken || !good;
            if (offset != null && !broken) {
                done = offset.longValue();
                written++;
            }
        }

        public synchronized String toString() {
            return waiting.size() + " " + done + " " + written;
        }
    }
}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """How far one partition of the target has come."""

    waiting: int
    """Records that were sent and are not acknowledged yet."""
    done: int | None
    """The source offset of the last record that was; None: none was."""
    written: int
    """How many were."""


class Trail:
    """Of one query, by its name. Job threads; each call asks the JVM, which takes a millisecond."""

    def __init__(self, spark: SparkSession, run: str) -> None:
        """Have the class in the JVM."""
        self._run = run
        self._runs = _runs(spark.sparkContext)

    def places(self) -> dict[TopicPartition, Place]:
        """Return how far each partition of the target has come that records were sent to."""
        known = self._runs.get(self._run)
        return {} if known is None else places_of(str(known.toString()))

    def forget(self) -> None:
        """Let go of what is known."""
        self._runs.remove(self._run)


def options(given: Mapping[str, str], run: str) -> dict[str, str]:
    """Return a Kafka writer's options for records that `marked` has marked. A user's own interceptors come after."""
    made = {**intercepted(given, _CLASS), _RUN: run}
    if given.get(_IDEMPOTENCE, "false").lower() != "true":
        made[_IN_FLIGHT] = "1"  # or a record could be acknowledged before one that is tried again
    return made


def marked(headers: Column, timestamp: Column, offset: Column) -> Column:
    """Return a record's headers with its time and its source offset behind them, for the interceptor to take off."""
    from pyspark.sql import functions  # noqa: PLC0415 - loaded when Spark is

    time = functions.unix_millis(timestamp).cast("string")
    return with_last(headers, HEADER, functions.concat(time, functions.lit(" "), offset.cast("string")))


def places_of(text: str) -> dict[TopicPartition, Place]:
    """Read what a run's map says of itself: `{TOPIC PARTITION=WAITING DONE WRITTEN, …}`."""
    found: dict[TopicPartition, Place] = {}
    for each in filter(None, text.strip("{}").split(", ")):
        where, _, numbers = each.partition("=")
        topic, _, partition = where.partition(" ")
        waiting, done, written = map(int, numbers.split(" "))
        place = Place(waiting=waiting, done=None if done < 0 else done, written=written)
        found[TopicPartition(topic, int(partition))] = place
    return found


def _runs(context: Any) -> Any:
    """Return what the class knows, by names of runs; the first time in a JVM it is made and loaded."""
    return loaded(context, _CLASS, _SOURCE).getField("RUNS").get(None)
