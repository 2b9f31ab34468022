package kraal.plugins;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.runtime.WorkerConfig;
import org.apache.kafka.connect.storage.OffsetBackingStore;
import org.apache.kafka.connect.util.Callback;

/**
 * The source offsets of a standalone worker, which the Python worker stores in its file. Keys and values are
 * serialized by Connect's internal JsonConverter. Thread-safe.
 */
final class StandaloneOffsets implements OffsetBackingStore {
    /** The run number in events with offset requests; no run of a connector or task has this number. */
    static final long RUN = -1;
    private final Events events;
    /** Generates request numbers that no earlier process has used: responses to earlier requests may still arrive. */
    private final AtomicLong numbers = new AtomicLong(System.currentTimeMillis() << 20);
    private final Map<Long, CompletableFuture<Map<ByteBuffer, ByteBuffer>>> pending = new ConcurrentHashMap<>();

    StandaloneOffsets(Events events) {
        this.events = events;
    }

    /** Completes a request: with the error unless it is null, else with pairs of a key and a value (which may be null). */
    void complete(long number, List<List<String>> pairs, String error) {
        CompletableFuture<Map<ByteBuffer, ByteBuffer>> request = pending.remove(number);
        if (request == null) {
            return;
        }
        if (error != null) {
            request.completeExceptionally(new ConnectException(error));
            return;
        }
        Map<ByteBuffer, ByteBuffer> values = new HashMap<>();
        pairs.forEach(pair -> values.put(bytes(pair.get(0)), bytes(pair.get(1))));
        request.complete(values);
    }

    @Override
    public Future<Map<ByteBuffer, ByteBuffer>> get(Collection<ByteBuffer> keys) {
        return send("load", keys.stream().map(StandaloneOffsets::text).toList());
    }

    @Override
    public Future<Void> set(Map<ByteBuffer, ByteBuffer> values, Callback<Void> callback) {
        List<List<String>> pairs = new ArrayList<>();
        values.forEach((key, value) -> pairs.add(Arrays.asList(text(key), text(value))));
        return send("store", pairs).handle((stored, error) -> {
            if (callback != null) {
                callback.onCompletion(error, null);
            }
            if (error != null) {
                throw new ConnectException("The offsets were not stored", error);
            }
            return null;
        });
    }

    @Override
    public Set<Map<String, Object>> connectorPartitions(String connectorName) {
        throw new UnsupportedOperationException("the Python worker stores the offsets of connectors");
    }

    @Override
    public void configure(WorkerConfig config) {
        // the Python worker opens the file
    }

    @Override
    public void start() {
        // the Python worker opens the file
    }

    @Override
    public void stop() {
        // pending requests end with the process
    }

    private CompletableFuture<Map<ByteBuffer, ByteBuffer>> send(String what, Object detail) {
        long number = numbers.incrementAndGet();
        CompletableFuture<Map<ByteBuffer, ByteBuffer>> request = new CompletableFuture<>();
        pending.put(number, request);
        events.addOffsetsEvent(RUN, what, Map.of("request", number, "texts", detail));
        return request;
    }

    private static String text(ByteBuffer bytes) {
        return bytes == null ? null : UTF_8.decode(bytes.duplicate()).toString();
    }

    private static ByteBuffer bytes(String text) {
        return text == null ? null : ByteBuffer.wrap(text.getBytes(UTF_8));
    }
}
