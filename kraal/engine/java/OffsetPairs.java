package kraal;

import java.util.Arrays;
import java.util.Iterator;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.producer.ProducerInterceptor;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeaders;

/**
 * Sets records' timestamps, and pairs their source offsets with the offsets that Kafka gave to them.
 *
 * <p>The last header of a record is its timestamp, a blank and its source offset. A producer acknowledges the records
 * of a partition in the order in which they were sent, if it has one request in flight or is idempotent.
 */
public final class OffsetPairs implements ProducerInterceptor {
    /** The runs by their names: what has been written since the last look. */
    public static final Map RUNS = new ConcurrentHashMap();
    /** The partitions that this producer writes to; each producer has its own order. */
    private final Map places = new ConcurrentHashMap();
    private Run run = new Run();
    private long step = 1;
    /** The partitions of the last record that was sent and of the last one that ended: mostly those of the next. */
    private Place sending;
    private Place ending;

    public void configure(Map configs) {
        String name = String.valueOf(configs.get("kraal.run"));
        RUNS.putIfAbsent(name, run);
        run = (Run) RUNS.get(name);
        step = Long.parseLong(String.valueOf(configs.get("kraal.step")));
    }

    public ProducerRecord onSend(ProducerRecord record) {
        Header[] all = record.headers().toArray();
        int last = all.length - 1;
        byte[] text = all[last].value();
        int blank = 0;
        while (text[blank] != ' ') {
            blank++;
        }
        long time = number(text, 0, blank);
        Place place = at(sending, record.topic(), record.partition().intValue());
        sending = place;
        place.sent(number(text, blank + 1, text.length));
        Header[] own = (Header[]) Arrays.copyOf(all, last);
        return new ProducerRecord(
            record.topic(), record.partition(), time < 0 ? null : Long.valueOf(time),
            record.key(), record.value(), new RecordHeaders(own)
        );
    }

    public void onAcknowledgement(RecordMetadata metadata, Exception exception) {
        if (metadata != null) {
            Place place = at(ending, metadata.topic(), metadata.partition());
            ending = place;
            place.ended(exception == null ? metadata.offset() : -1L);
        }
    }

    public void close() {}

    /** Returns a number that is written in decimal digits. */
    private static long number(byte[] text, int from, int to) {
        boolean isNegative = text[from] == '-';
        long number = 0;
        for (int i = isNegative ? from + 1 : from; i < to; i++) {
            number = 10 * number + (text[i] - '0');
        }
        return isNegative ? -number : number;
    }

    /** Returns what is known of a partition; `guess`: the place that it may be. */
    private Place at(Place guess, String topic, int partition) {
        if (guess != null && guess.partition == partition && guess.topic.equals(topic)) {
            return guess;
        }
        TopicPartition name = new TopicPartition(topic, partition);
        Place place = (Place) places.get(name);
        if (place == null) {
            places.putIfAbsent(name, new Place(topic, partition, run.at(name), step));
            place = (Place) places.get(name);
        }
        return place;
    }

    /** The pairs of all partitions. */
    public static final class Run {
        private final Map found = new ConcurrentHashMap();

        Pairs at(TopicPartition name) {
            found.putIfAbsent(name, new Pairs());
            return (Pairs) found.get(name);
        }

        /** Returns and forgets the pairs: for each partition a line with its topic, its number, and the pairs. */
        public String take() {
            StringBuilder text = new StringBuilder();
            Iterator names = found.keySet().iterator();
            while (names.hasNext()) {
                TopicPartition name = (TopicPartition) names.next();
                String pairs = ((Pairs) found.get(name)).take();
                if (!pairs.isEmpty()) {
                    text.append(name.topic()).append(' ').append(name.partition()).append(pairs).append('\n');
                }
            }
            return text.toString();
        }
    }

    /** Some pairs of one partition, in the order of the writes; the last one is that of the last record. */
    static final class Pairs {
        private static final int MOST = 64;
        private final long[] source = new long[MOST];
        private final long[] target = new long[MOST];
        private int count;
        private boolean isNew;
        private long lastSource;
        private long lastTarget;

        synchronized void written(long from, long to, boolean isDue) {
            isNew = !isDue;
            lastSource = from;
            lastTarget = to;
            if (isDue) {
                if (count == MOST) { // keep every second one: the older, the sparser
                    count = MOST / 2;
                    for (int i = 0; i < count; i++) {
                        source[i] = source[2 * i];
                        target[i] = target[2 * i];
                    }
                }
                source[count] = from;
                target[count] = to;
                count++;
            }
        }

        synchronized String take() {
            StringBuilder text = new StringBuilder();
            for (int i = 0; i < count; i++) {
                text.append(' ').append(source[i]).append(' ').append(target[i]);
            }
            if (isNew) {
                text.append(' ').append(lastSource).append(' ').append(lastTarget);
            }
            count = 0;
            isNew = false;
            return text.toString();
        }
    }

    /** The records of one partition that are on their way, and when the next pair is due. */
    static final class Place {
        final String topic;
        final int partition;
        private final Pairs pairs;
        private final long step;
        /** A ring of the source offsets of records that are not acknowledged. */
        private long[] waiting = new long[1024];
        private int first;
        private int size;
        private Thread sender;
        private long previousSource = -1L;
        private long previousTarget = -1L;
        private long pairedTarget = -1L;

        Place(String topic, int partition, Pairs pairs, long step) {
            this.topic = topic;
            this.partition = partition;
            this.pairs = pairs;
            this.step = step;
        }

        synchronized void sent(long offset) {
            sender = Thread.currentThread();
            if (size == waiting.length) {
                long[] larger = new long[2 * size];
                System.arraycopy(waiting, first, larger, 0, size - first);
                System.arraycopy(waiting, 0, larger, size - first, first);
                waiting = larger;
                first = 0;
            }
            waiting[(first + size) % waiting.length] = offset;
            size++;
        }

        /** Notes that a record was written at an offset; -1: it was not, or Kafka did not say where. */
        synchronized void ended(long offset) {
            if (size == 0) {
                return;
            }
            size--;
            if (offset < 0 && Thread.currentThread() == sender) { // the record that was just to be sent
                return;
            }
            long from = waiting[first];
            first = (first + 1) % waiting.length;
            if (offset < 0) {
                return;
            }
            boolean isDue = pairedTarget < 0 || offset - (pairedTarget + 1) >= step
                || from - previousSource != 1L || offset < previousTarget;
            if (isDue) {
                pairedTarget = offset;
            }
            previousSource = from;
            previousTarget = offset;
            pairs.written(from, offset, isDue);
        }
    }
}
