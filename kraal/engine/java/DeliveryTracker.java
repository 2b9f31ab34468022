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

/** Tracks the source offsets of acknowledged records by partition. */
public final class DeliveryTracker implements ProducerInterceptor {
    public static final Map RUNS = new ConcurrentHashMap();
    private Map progress = new ConcurrentHashMap();

    public void configure(Map configs) {
        String run = String.valueOf(configs.get("kraal.run"));
        RUNS.putIfAbsent(run, progress);
        progress = (Map) RUNS.get(run);
    }

    public ProducerRecord onSend(ProducerRecord record) {
        Header[] all = record.headers().toArray();
        int last = all.length - 1;
        String text = new String(all[last].value(), StandardCharsets.US_ASCII);
        int space = text.indexOf(' ');
        long time = Long.parseLong(text.substring(0, space));
        progressOf(record.topic(), record.partition().intValue()).sent(Long.parseLong(text.substring(space + 1)));
        Header[] headers = (Header[]) Arrays.copyOf(all, last);
        return new ProducerRecord(
            record.topic(), record.partition(), time < 0 ? null : Long.valueOf(time),
            record.key(), record.value(), new RecordHeaders(headers)
        );
    }

    public void onAcknowledgement(RecordMetadata metadata, Exception exception) {
        if (metadata != null) {
            progressOf(metadata.topic(), metadata.partition()).completed(exception == null, metadata.offset());
        }
    }

    public void close() {}

    private Progress progressOf(String topic, int partition) {
        String name = topic + " " + partition;
        Progress entry = (Progress) progress.get(name);
        if (entry == null) {
            progress.putIfAbsent(name, new Progress());
            entry = (Progress) progress.get(name);
        }
        return entry;
    }

    static final class Progress {
        private final ArrayDeque inFlight = new ArrayDeque();
        private Thread sender;
        private boolean hasFailed;
        private long sourceOffset = -1L;
        private long targetOffset = -1L;
        private long writtenCount;

        synchronized void sent(long offset) {
            sender = Thread.currentThread();
            inFlight.addLast(Long.valueOf(offset));
        }

        synchronized void completed(boolean succeeded, long target) {
            if (!succeeded && Thread.currentThread() == sender) {
                inFlight.pollLast();
                return;
            }
            Long offset = (Long) inFlight.pollFirst();
            hasFailed = hasFailed || !succeeded;
            if (offset != null && !hasFailed) {
                sourceOffset = offset.longValue();
                targetOffset = target;
                writtenCount++;
            }
        }

        public synchronized String toString() {
            return inFlight.size() + " " + sourceOffset + " " + targetOffset + " " + writtenCount;
        }
    }
}
