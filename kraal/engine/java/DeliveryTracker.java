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

/** Tracks which source offsets of each partition Kafka has acknowledged. */
public final class DeliveryTracker implements ProducerInterceptor {
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
            at(metadata.topic(), metadata.partition()).ended(exception == null, metadata.offset());
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
        private long at = -1L;
        private long written;

        synchronized void sent(long offset) {
            sender = Thread.currentThread();
            waiting.addLast(Long.valueOf(offset));
        }

        synchronized void ended(boolean good, long target) {
            if (!good && Thread.currentThread() == sender) {
                waiting.pollLast();
                return;
            }
            Long offset = (Long) waiting.pollFirst();
            broken = broken || !good;
            if (offset != null && !broken) {
                done = offset.longValue();
                at = target;
                written++;
            }
        }

        public synchronized String toString() {
            return waiting.size() + " " + done + " " + at + " " + written;
        }
    }
}
