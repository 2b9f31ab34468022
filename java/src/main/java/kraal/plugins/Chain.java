package kraal.plugins;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.locks.ReentrantLock;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.runtime.ConnectMetrics;
import org.apache.kafka.connect.runtime.ConnectorConfig;
import org.apache.kafka.connect.runtime.TransformationChain;
import org.apache.kafka.connect.runtime.TransformationStage;
import org.apache.kafka.connect.runtime.errors.ErrorHandlingMetrics;
import org.apache.kafka.connect.runtime.errors.Operation;
import org.apache.kafka.connect.runtime.errors.ProcessingContext;
import org.apache.kafka.connect.runtime.errors.RetryWithToleranceOperator;
import org.apache.kafka.connect.runtime.errors.Stage;
import org.apache.kafka.connect.runtime.errors.ToleranceType;
import org.apache.kafka.connect.runtime.isolation.LoaderSwap;
import org.apache.kafka.connect.runtime.isolation.Plugins;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.util.ConnectorTaskId;

/**
 * The transforms and converters of one task of a source in Python. Batches pass one at a time.
 *
 * <p>A record that fails is returned as a fault; Python decides what becomes of it. Source: AbstractWorkerSourceTask.
 */
final class Chain implements AutoCloseable {
    private static final JsonConverter PLAIN = json(false);
    private static final JsonConverter SCHEMAS = json(true);
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private final Plugins plugins;
    private final Converter keyConverter;
    private final Converter valueConverter;
    private final HeaderConverter headerConverter;
    private final RetryWithToleranceOperator<SourceRecord> retries;
    private final TransformationChain<SourceRecord, SourceRecord> transforms;
    private final Counted counted;
    private final ReentrantLock busy = new ReentrantLock();
    private volatile boolean closing;
    private boolean closed;

    /** Makes the plugins; {@code config} has the keys of transforms, predicates, converters and retries. */
    Chain(Plugins plugins, ConnectMetrics metrics, ConnectorTaskId id, Map<String, String> config) {
        this.plugins = plugins;
        counted = new Counted(id, metrics);
        try (LoaderSwap swap = plugins.withClassLoader(plugins.delegatingLoader())) {
            ConnectorConfig known = new ConnectorConfig(plugins, config);
            retries = new RetryWithToleranceOperator<>(
                known.errorRetryTimeout(), known.errorMaxDelayInMillis(), ToleranceType.ALL, Time.SYSTEM, counted);
            keyConverter = plugins.newConverter(
                known, ConnectorConfig.KEY_CONVERTER_CLASS_CONFIG, ConnectorConfig.KEY_CONVERTER_VERSION_CONFIG);
            valueConverter = plugins.newConverter(
                known, ConnectorConfig.VALUE_CONVERTER_CLASS_CONFIG, ConnectorConfig.VALUE_CONVERTER_VERSION_CONFIG);
            headerConverter = plugins.newHeaderConverter(
                known, ConnectorConfig.HEADER_CONVERTER_CLASS_CONFIG, ConnectorConfig.HEADER_CONVERTER_VERSION_CONFIG);
            List<TransformationStage<SourceRecord>> stages = known.transformationStages(plugins, id, metrics);
            transforms = new TransformationChain<>(stages, retries);
        } catch (RuntimeException | LinkageError e) {
            counted.close();
            throw e;
        }
    }

    private static JsonConverter json(boolean schemas) {
        JsonConverter made = new JsonConverter();
        made.configure(Map.of("schemas.enable", schemas, "converter.type", "value"));
        return made;
    }

    /**
     * Passes a batch; see {@code frames.py} for what it consists of. Stops at the first record that fails if
     * {@code stops} is true. With {@code dead}, failed records are returned too, converted as they came.
     */
    Frame pass(Frame given) throws Exception {
        busy.lock();
        try {
            if (closing) {
                throw new IllegalStateException("the task has ended");
            }
            return new Pass(given).run();
        } finally {
            busy.unlock();
            closeIfDue();
        }
    }

    /** Ends retries, and closes the plugins now, or when the batch that is under way has passed. */
    @Override
    public void close() {
        closing = true;
        retries.triggerStop();
        closeIfDue();
    }

    private void closeIfDue() {
        if (!closing || !busy.tryLock()) {
            return;
        }
        try {
            if (!closed) {
                closed = true;
                Utils.closeQuietly(transforms, "transformation chain");
                Utils.closeQuietly(retries, "retry operator");
                Utils.closeQuietly(headerConverter, "header converter");
                Utils.closeQuietly(keyConverter, "key converter");
                Utils.closeQuietly(valueConverter, "value converter");
            }
        } finally {
            busy.unlock();
        }
    }

    /** One batch. */
    private final class Pass {
        private final Map<String, Object> about;
        private final List<SourceRecord> records;
        private final Rows rows = new Rows();
        private final Rows dead = new Rows();
        private final List<Object> faults = new ArrayList<>();
        private final boolean stops;
        private final boolean buries;
        private int read;

        Pass(Frame given) throws Exception {
            about = given.about();
            stops = Boolean.TRUE.equals(about.get("stops"));
            buries = Boolean.TRUE.equals(about.get("dead"));
            records = records(given);
        }

        Frame run() throws Exception {
            counted.failures = 0;
            counted.retries = 0;
            for (SourceRecord record : records) {
                read++;
                if (!passed(record) && stops) {
                    break;
                }
            }
            Map<String, Object> answer = new LinkedHashMap<>();
            List<ByteBuffer> buffers = new ArrayList<>();
            answer.put("read", read);
            answer.put("failures", counted.failures);
            answer.put("retries", counted.retries);
            answer.put("faults", faults);
            answer.put("rows", rows.writeTo(buffers));
            answer.put("dead", dead.writeTo(buffers));
            return new Frame(answer, buffers);
        }

        /** Passes a record; returns false if it failed. */
        private boolean passed(SourceRecord record) throws Exception {
            Set<Header> given = Collections.newSetFromMap(new IdentityHashMap<>());
            record.headers().forEach(given::add);
            ProcessingContext<SourceRecord> context = new ProcessingContext<>(record);
            SourceRecord out = transforms.apply(context, record);
            if (out != null && !context.failed()) {
                convert(context, out, given);
            }
            if (context.failed()) {
                faults.add(fault(context, record));
                if (buries) {
                    dead.add(
                        record.topic(), null, own(record),
                        asItWas(keyConverter, record, record.keySchema(), record.key()),
                        asItWas(valueConverter, record, record.valueSchema(), record.value()));
                }
            }
            return !context.failed();
        }

        private void convert(ProcessingContext<SourceRecord> context, SourceRecord out, Set<Header> given) {
            RecordHeaders headers = new RecordHeaders(); // converters may add more
            step(context, Stage.HEADER_CONVERTER, headerConverter, () -> addHeaders(out, given, headers));
            byte[] key = context.failed() ? null : step(context, Stage.KEY_CONVERTER, keyConverter,
                () -> keyConverter.fromConnectData(out.topic(), headers, out.keySchema(), out.key()));
            byte[] value = context.failed() ? null : step(context, Stage.VALUE_CONVERTER, valueConverter,
                () -> valueConverter.fromConnectData(out.topic(), headers, out.valueSchema(), out.value()));
            if (context.failed()) {
                return;
            }
            if (out.topic() == null) {
                throw new IllegalArgumentException("Topic cannot be null.");
            }
            rows.add(out.topic(), out.kafkaPartition(), headers, key, value);
        }

        private <V> V step(
            ProcessingContext<SourceRecord> context, Stage stage, Object plugin, Operation<V> operation) {
            return retries.execute(context, () -> {
                try (LoaderSwap swap = plugins.withClassLoader(plugin.getClass().getClassLoader())) {
                    return operation.call();
                }
            }, stage, plugin.getClass());
        }

        /** Converts headers; those that came with the record are bytes already. */
        private Void addHeaders(SourceRecord out, Set<Header> given, RecordHeaders headers) {
            for (org.apache.kafka.common.header.Header each : headers.toArray()) {
                headers.remove(each.key()); // of an earlier try
            }
            for (Header header : out.headers()) {
                headers.add(header.key(), given.contains(header)
                    ? (byte[]) header.value()
                    : headerConverter.fromConnectHeader(out.topic(), header.key(), header.schema(), header.value()));
            }
            return null;
        }

        private RecordHeaders own(SourceRecord record) {
            RecordHeaders found = new RecordHeaders();
            record.headers().forEach(each -> found.add(each.key(), (byte[]) each.value()));
            return found;
        }

        private byte[] asItWas(Converter converter, SourceRecord record, Schema schema, Object value) {
            if (value == null) {
                return null;
            }
            try (LoaderSwap swap = plugins.withClassLoader(converter.getClass().getClassLoader())) {
                return converter.fromConnectData(record.topic(), new RecordHeaders(), schema, value);
            } catch (Exception | LinkageError e) {
                return plain(record.topic(), schema, value);
            }
        }

        private byte[] plain(String topic, Schema schema, Object value) {
            try {
                return PLAIN.fromConnectData(topic, schema, value);
            } catch (RuntimeException e) {
                return String.valueOf(value).getBytes(StandardCharsets.UTF_8);
            }
        }

        private Map<String, Object> fault(ProcessingContext<SourceRecord> context, SourceRecord record) {
            Throwable error = context.error();
            Map<String, Object> made = new LinkedHashMap<>();
            made.put("stage", context.stage().name());
            made.put("class_name", context.executingClass().getName());
            made.put("exception", error.getClass().getName());
            made.put("message", error.getMessage());
            made.put("stack", Utils.stackTrace(error).stripTrailing());
            made.put("topic", record.topic());
            made.put("record", Boolean.TRUE.equals(about.get("shows")) ? record.toString() : "");
            return made;
        }

        private List<SourceRecord> records(Frame given) throws Exception {
            Iterator<ByteBuffer> buffers = given.buffers().iterator();
            Schema keySchema = schema("key_schema");
            Schema valueSchema = schema("value_schema");
            Map<String, Columns.Column> columns = new LinkedHashMap<>();
            for (Object each : (List<?>) about.get("columns")) {
                Map<String, Object> named = Columns.object(each);
                String name = (String) named.get("name");
                Schema schema = "key".equals(name) ? keySchema : "value".equals(name) ? valueSchema : null;
                columns.put(name, Columns.read(Columns.object(named.get("column")), schema, buffers));
            }
            Columns.Column nothing = row -> null;
            Columns.Column topics = columns.getOrDefault("topic", row -> about.get("topic"));
            Columns.Column times = columns.getOrDefault("timestamp", row -> about.get("timestamp"));
            Columns.Column partitions = columns.getOrDefault("partition", nothing);
            Columns.Column headers = columns.getOrDefault("headers", nothing);
            Columns.Column keys = columns.getOrDefault("key", nothing);
            Columns.Column values = columns.getOrDefault("value", nothing);
            int count = ((Number) about.get("count")).intValue();
            List<SourceRecord> all = new ArrayList<>(count);
            for (int row = 0; row < count; row++) {
                Long partition = (Long) partitions.get(row);
                all.add(new SourceRecord(
                    source("source_partition"), source("source_offset"), (String) topics.get(row),
                    partition == null ? null : partition.intValue(),
                    keySchema, keys.get(row), valueSchema, values.get(row), (Long) times.get(row),
                    bytes((List<?>) headers.get(row))));
            }
            return all;
        }

        private Map<String, Object> source(String name) {
            return Columns.object(about.get(name));
        }

        private Iterable<Header> bytes(List<?> headers) {
            ConnectHeaders made = new ConnectHeaders();
            if (headers != null) {
                for (Object each : headers) {
                    Map<String, Object> header = Columns.object(each);
                    made.add((String) header.get("key"), header.get("value"), Schema.OPTIONAL_BYTES_SCHEMA);
                }
            }
            return made;
        }

        private Schema schema(String name) throws Exception {
            Object text = about.get(name);
            return text == null ? null : SCHEMAS.asConnectSchema(MAPPER.readTree((String) text));
        }
    }

    /** Counts what the operator does; Python adds it to its own metrics. */
    private static final class Counted extends ErrorHandlingMetrics {
        private long failures;
        private long retries;

        Counted(ConnectorTaskId id, ConnectMetrics metrics) {
            super(id, metrics);
        }

        @Override
        public void recordFailure() {
            failures++;
            super.recordFailure();
        }

        @Override
        public void recordRetry() {
            retries++;
            super.recordRetry();
        }
    }
}
