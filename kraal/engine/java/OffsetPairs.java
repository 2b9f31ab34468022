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
 * Sets the timestamps of records, and pairs their source offsets with their offsets in Kafka.
 *
 * <p>The last header of a record contains its timestamp, a space and its source offset. The records of a partition are
 * acknowledged in the order in which they were sent, because the producer has one request in flight or is idempotent.
 */
public final class OffsetPairs implements ProducerInterceptor {
    /** The runs by name, with the pairs since the last call of `take`. */
    public static final Map RUNS = new ConcurrentHashMap();
    /** The states of the partitions that this producer writes to. Acknowledgements are ordered only per producer. */
    private final Map states = new ConcurrentHashMap();
    private Run run = new Run();
    /** The number of records between two sampled pairs of a partition. */
    private long step = 1;
    /** The partition states of the last sent and the last completed record; usually, the next record has the same. */
    private PartitionState lastSent;
    private PartitionState lastCompleted;

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
        int space = 0;
        while (text[space] != ' ') {
            space++;
        }
        long time = parse(text, 0, space);
        PartitionState state = stateOf(lastSent, record.topic(), record.partition().intValue());
        lastSent = state;
        state.sent(parse(text, space + 1, text.length));
        Header[] headers = (Header[]) Arrays.copyOf(all, last);
        return new ProducerRecord(
            record.topic(), record.partition(), time < 0 ? null : Long.valueOf(time),
            record.key(), record.value(), new RecordHeaders(headers)
        );
    }

    public void onAcknowledgement(RecordMetadata metadata, Exception exception) {
        if (metadata != null) {
            PartitionState state = stateOf(lastCompleted, metadata.topic(), metadata.partition());
            lastCompleted = state;
            state.completed(exception == null ? metadata.offset() : -1L);
        }
    }

    public void close() {}

    /** Parses a decimal number. */
    private static long parse(byte[] text, int from, int to) {
        boolean isNegative = text[from] == '-';
        long number = 0;
        for (int i = isNegative ? from + 1 : from; i < to; i++) {
            number = 10 * number + (text[i] - '0');
        }
        return isNegative ? -number : number;
    }

    /** Returns the state of a partition; `guess` may be that state. */
    private PartitionState stateOf(PartitionState guess, String topic, int partition) {
        if (guess != null && guess.partition == partition && guess.topic.equals(topic)) {
            return guess;
        }
        TopicPartition name = new TopicPartition(topic, partition);
        PartitionState state = (PartitionState) states.get(name);
        if (state == null) {
            states.putIfAbsent(name, new PartitionState(topic, partition, run.pairsOf(name), step));
            state = (PartitionState) states.get(name);
        }
        return state;
    }

    /** The pairs of all partitions of a run. */
    public static final class Run {
        private final Map pairs = new ConcurrentHashMap();

        Pairs pairsOf(TopicPartition name) {
            pairs.putIfAbsent(name, new Pairs());
            return (Pairs) pairs.get(name);
        }

        /** Returns and removes the pairs: for each partition, a line with its topic, its number and the pairs. */
        public String take() {
            StringBuilder text = new StringBuilder();
            Iterator names = pairs.keySet().iterator();
            while (names.hasNext()) {
                TopicPartition name = (TopicPartition) names.next();
                String numbers = ((Pairs) pairs.get(name)).take();
                if (!numbers.isEmpty()) {
                    text.append(name.topic()).append(' ').append(name.partition()).append(numbers).append('\n');
                }
            }
            return text.toString();
        }
    }

    /** A sample of the pairs of one partition, in the order of the writes, including the pair of the last record. */
    static final class Pairs {
        private static final int MAX_PAIRS = 64;
        private final long[] source = new long[MAX_PAIRS];
        private final long[] target = new long[MAX_PAIRS];
        private int count;
        private boolean isLastUnsampled;
        private long lastSource;
        private long lastTarget;

        synchronized void written(long from, long to, boolean isDue) {
            isLastUnsampled = !isDue;
            lastSource = from;
            lastTarget = to;
            if (isDue) {
                if (count == MAX_PAIRS) { // keep every second pair, so that older pairs are sparser
                    count = MAX_PAIRS / 2;
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
            if (isLastUnsampled) {
                text.append(' ').append(lastSource).append(' ').append(lastTarget);
            }
            count = 0;
            isLastUnsampled = false;
            return text.toString();
        }
    }

    /** The records of one partition that are in flight; decides which written records are sampled as pairs. */
    static final class PartitionState {
        final String topic;
        final int partition;
        private final Pairs pairs;
        private final long step;
        /** A ring buffer of the source offsets of unacknowledged records. */
        private long[] inFlight = new long[1024];
        private int first;
        private int size;
        private Thread sender;
        private long previousSource = -1L;
        private long previousTarget = -1L;
        private long pairedTarget = -1L;

        PartitionState(String topic, int partition, Pairs pairs, long step) {
            this.topic = topic;
            this.partition = partition;
            this.pairs = pairs;
            this.step = step;
        }

        synchronized void sent(long offset) {
            sender = Thread.currentThread();
            if (size == inFlight.length) {
                long[] larger = new long[2 * size];
                System.arraycopy(inFlight, first, larger, 0, size - first);
                System.arraycopy(inFlight, 0, larger, size - first, first);
                inFlight = larger;
                first = 0;
            }
            inFlight[(first + size) % inFlight.length] = offset;
            size++;
        }

        /** Records that a record was written at an offset; -1 if it was not, or if the offset is unknown. */
        synchronized void completed(long offset) {
            if (size == 0) {
                return;
            }
            size--;
            if (offset < 0 && Thread.currentThread() == sender) { // the producer failed to send the latest record
                return;
            }
            long from = inFlight[first];
            first = (first + 1) % inFlight.length;
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
