package kraal;

import java.io.ByteArrayInputStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.BigIntVector;
import org.apache.arrow.vector.IntVector;
import org.apache.arrow.vector.VarBinaryVector;
import org.apache.arrow.vector.VarCharVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.complex.ListVector;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.VoidFunction;

/**
 * The Spark task of a lane: takes messages from a queue, sends their records to Kafka, and queues a result for each
 * batch when all its sent records are acknowledged or have failed.
 *
 * <p>A message is an Arrow stream whose rows are ordered by batch. The object is serialized with the Spark task, which
 * finds the lane's state by name. The public methods are thread-safe; `call` is the task itself.
 */
public final class Lane implements VoidFunction {
    private static final Map LANES = new ConcurrentHashMap();
    private static final String READY = "0";
    /** How long a result is delayed while further batches are in progress. */
    private static final long GATHER_MS = 3;
    private static final String ENDED = "-1 the lane's Spark task has ended";
    private final String name;
    private final transient State state;

    public Lane(String name) {
        this.name = name;
        state = new State();
        LANES.put(name, state);
    }

    /** Defines the configs of a producer, which is created on first use. */
    public void define(String producer, Map configs) {
        state.configs.put(producer, configs);
    }

    /** Queues an Arrow stream for the producer with this name. */
    public void push(String producer, byte[] stream) {
        synchronized (state) {
            if (!state.ended) {
                state.messages.add(new Message(producer, stream, state.epoch(producer)));
                return;
            }
        }
        throw new IllegalStateException("the lane has ended");
    }

    /** Waits up to `waitMs` for results; returns a line for each, see `State.results`. */
    public String take(long waitMs) throws InterruptedException {
        LinkedBlockingQueue results = state.results;
        Object first = results.poll(waitMs, TimeUnit.MILLISECONDS);
        if (first == null) {
            return "";
        }
        if (state.inProgress.get() > 0) { // more results will follow
            Thread.sleep(GATHER_MS);
        }
        ArrayList all = new ArrayList();
        all.add(first);
        results.drainTo(all);
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < all.size(); i++) {
            text.append(i == 0 ? "" : "\n").append(all.get(i));
        }
        return text.toString();
    }

    /** Closes a producer (null for all), and drops its queued and unsent records; their batches fail. */
    public void discard(String producer) {
        state.discard(producer);
    }

    /** Discards a producer and its configs; its name is not reused. */
    public void forget(String producer) {
        state.discard(producer);
        state.configs.remove(producer);
    }

    /** Rejects further streams, and discards all producers. */
    public void end() {
        synchronized (state) {
            state.ended = true;
        }
        state.discard(null);
    }

    public void call(Object rows) throws Exception {
        State shared = (State) LANES.get(name);
        RootAllocator allocator = new RootAllocator();
        try {
            shared.results.add(READY);
            while (!TaskContext.get().isInterrupted()) {
                shared.send((Message) shared.messages.take(), allocator);
            }
        } finally {
            synchronized (shared) {
                shared.ended = true;
            }
            Thread.interrupted(); // an interrupted thread cannot close producers
            try {
                shared.discard(null);
            } finally {
                shared.results.add(ENDED);
                LANES.remove(name);
                allocator.close();
            }
        }
    }

    /** The state that the Spark task and its callers share. */
    static final class State {
        final LinkedBlockingQueue messages = new LinkedBlockingQueue();
        /** A batch's number, a colon and the number of acknowledged records; or the number, a space and the error. */
        final LinkedBlockingQueue results = new LinkedBlockingQueue();
        /** Number of batches that have no result yet. */
        final AtomicInteger inProgress = new AtomicInteger();
        final Map configs = new ConcurrentHashMap();
        private final Map producers = new HashMap();
        private final Map epochs = new HashMap();
        boolean ended;

        void send(Message message, RootAllocator allocator) throws Exception {
            ArrowStreamReader reader = new ArrowStreamReader(new ByteArrayInputStream(message.stream), allocator);
            try {
                Batch batch = null;
                while (reader.loadNextBatch()) {
                    Rows rows = new Rows(reader.getVectorSchemaRoot());
                    for (int row = 0; row < rows.count; row++) {
                        long number = rows.batches.get(row);
                        if (batch == null || batch.number != number) {
                            if (batch != null) {
                                batch.complete(null);
                            }
                            batch = new Batch(number, this);
                        }
                        if (!batch.hasFailed()) {
                            send(message, rows, row, batch);
                        }
                    }
                }
                if (batch != null) {
                    batch.complete(null);
                }
            } finally {
                reader.close();
            }
        }

        private void send(Message message, Rows rows, int row, Batch batch) {
            batch.start();
            try {
                producer(message).send(rows.record(row), batch);
            } catch (Exception error) {
                batch.complete(error);
            }
        }

        private synchronized KafkaProducer producer(Message message) {
            String name = message.producer;
            if (message.epoch != epoch(name)) {
                throw new IllegalStateException("the records were discarded");
            }
            KafkaProducer producer = (KafkaProducer) producers.get(name);
            if (producer == null) {
                ByteArraySerializer bytes = new ByteArraySerializer();
                producer = new KafkaProducer((Map) configs.get(name), bytes, bytes);
                producers.put(name, producer);
            }
            return producer;
        }

        synchronized long epoch(String producer) {
            Long epoch = (Long) epochs.get(producer);
            return epoch == null ? 0L : epoch.longValue();
        }

        void discard(String producer) {
            ArrayList discarded = new ArrayList();
            synchronized (this) {
                Iterator names = configs.keySet().iterator();
                while (names.hasNext()) {
                    String name = (String) names.next();
                    if (producer == null || producer.equals(name)) {
                        epochs.put(name, Long.valueOf(epoch(name) + 1));
                        discarded.add(producers.remove(name));
                    }
                }
            }
            for (int i = 0; i < discarded.size(); i++) {
                if (discarded.get(i) != null) {
                    ((KafkaProducer) discarded.get(i)).close(Duration.ZERO);
                }
            }
        }
    }

    /** An Arrow stream for a producer, with the number of times that the producer had been discarded before. */
    static final class Message {
        final String producer;
        final byte[] stream;
        final long epoch;

        Message(String producer, byte[] stream, long epoch) {
            this.producer = producer;
            this.stream = stream;
            this.epoch = epoch;
        }
    }

    /** The columns of one Arrow batch. */
    static final class Rows {
        final int count;
        final BigIntVector batches;
        private final VarCharVector topics;
        private final VarBinaryVector keys;
        private final VarBinaryVector values;
        private final IntVector partitions;
        private final ListVector headers;

        Rows(VectorSchemaRoot root) {
            count = root.getRowCount();
            batches = (BigIntVector) root.getVector("batch");
            topics = (VarCharVector) root.getVector("topic");
            keys = (VarBinaryVector) root.getVector("key");
            values = (VarBinaryVector) root.getVector("value");
            partitions = (IntVector) root.getVector("partition");
            headers = (ListVector) root.getVector("headers");
        }

        ProducerRecord record(int row) {
            String topic = topics.isNull(row) ? null : new String(topics.get(row), StandardCharsets.UTF_8);
            Integer partition =
                partitions == null || partitions.isNull(row) ? null : Integer.valueOf(partitions.get(row));
            return new ProducerRecord(topic, partition, null, bytes(keys, row), bytes(values, row), headers(row));
        }

        private static byte[] bytes(VarBinaryVector vector, int row) {
            return vector == null || vector.isNull(row) ? null : vector.get(row);
        }

        private Iterable headers(int row) {
            RecordHeaders result = new RecordHeaders();
            if (headers != null && !headers.isNull(row)) {
                Iterator all = ((List) headers.getObject(row)).iterator();
                while (all.hasNext()) {
                    Map header = (Map) all.next();
                    Object key = header.get("key");
                    result.add(key == null ? null : key.toString(), (byte[]) header.get("value"));
                }
            }
            return result;
        }
    }

    /** Counts the records of one batch that are in flight, and queues the result when there are none left. */
    static final class Batch implements Callback {
        final long number;
        private final State state;
        private int pendingCount = 1;
        private int acknowledgedCount;
        private Exception failure;

        Batch(long number, State state) {
            this.number = number;
            this.state = state;
            state.inProgress.incrementAndGet();
        }

        synchronized void start() {
            pendingCount++;
        }

        synchronized boolean hasFailed() {
            return failure != null;
        }

        synchronized void complete(Exception error) {
            if (failure == null) {
                failure = error;
            }
            pendingCount--;
            if (pendingCount == 0) {
                state.inProgress.decrementAndGet();
                state.results.add(failure == null ? number + ":" + acknowledgedCount : number + " " + line(failure));
            }
        }

        public synchronized void onCompletion(RecordMetadata metadata, Exception error) {
            if (error == null) {
                acknowledgedCount++;
            }
            complete(error);
        }

        private static String line(Exception error) {
            return error.toString().replace('\n', ' ');
        }
    }
}
