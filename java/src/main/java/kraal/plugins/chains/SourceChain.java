package kraal.plugins.chains;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Date;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.runtime.ConnectMetrics;
import org.apache.kafka.connect.runtime.errors.ProcessingContext;
import org.apache.kafka.connect.runtime.errors.Stage;
import org.apache.kafka.connect.runtime.isolation.Plugins;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.util.ConnectorTaskId;

/** The chain of a Python source, which converts values to bytes. Source: AbstractWorkerSourceTask. */
final class SourceChain extends Chain<SourceRecord, SourceRecord> {
    private static final JsonConverter SCHEMALESS_JSON_CONVERTER = json(false);
    private static final JsonConverter JSON_CONVERTER = json(true);
    private static final ObjectMapper MAPPER = new ObjectMapper();

    SourceChain(Plugins plugins, ConnectMetrics metrics, ConnectorTaskId id, Map<String, String> config) {
        super(plugins, metrics, id, config);
    }

    private static JsonConverter json(boolean schemas) {
        JsonConverter converter = new JsonConverter();
        converter.configure(Map.of("schemas.enable", schemas, "converter.type", "value"));
        return converter;
    }

    @Override
    Frame processBatch(Frame request) throws Exception {
        return new Batch(request).run();
    }

    /** Processes one batch; stops at the first failed record if {@code stops} is true. */
    private final class Batch {
        private final Map<String, Object> head;
        private final List<SourceRecord> records;
        private final Rows rows = new Rows();
        private final Rows deadLetters = new Rows();
        private final List<Object> faults = new ArrayList<>();
        private final boolean stops;
        private final boolean writesDeadLetters;
        private int readCount;
        private int droppedCount;

        Batch(Frame request) throws Exception {
            head = request.head();
            stops = Boolean.TRUE.equals(head.get("stops"));
            writesDeadLetters = Boolean.TRUE.equals(head.get("dead"));
            records = records(request);
        }

        Frame run() throws Exception {
            for (SourceRecord record : records) {
                checkOpen();
                readCount++;
                if (!processRecord(record) && stops) {
                    break;
                }
            }
            Map<String, Object> response = new LinkedHashMap<>();
            List<ByteBuffer> buffers = new ArrayList<>();
            response.put("read", readCount);
            response.put("dropped", droppedCount);
            response.put("faults", faults);
            response.put("rows", rows.writeTo(buffers));
            response.put("dead", deadLetters.writeTo(buffers));
            return new Frame(response, buffers);
        }

        /** Processes a record; returns false if it failed. */
        private boolean processRecord(SourceRecord record) throws Exception {
            Set<Header> originals = Collections.newSetFromMap(new IdentityHashMap<>());
            record.headers().forEach(originals::add);
            ProcessingContext<SourceRecord> context = new ProcessingContext<>(record);
            SourceRecord out = transforms.apply(context, record);
            if (out == null && !context.failed()) {
                droppedCount++;
            } else if (!context.failed()) {
                convert(context, out, originals);
            }
            if (context.failed()) {
                Map<String, Object> fault = fault(context, record.topic());
                fault.put("record", Boolean.TRUE.equals(head.get("shows")) ? record.toString() : "");
                faults.add(fault);
                if (writesDeadLetters) {
                    deadLetters.add(
                        record.topic(), null, originalHeaders(record),
                        deadLetterBytes(keyConverter, record, record.keySchema(), record.key()),
                        deadLetterBytes(valueConverter, record, record.valueSchema(), record.value()));
                }
            }
            return !context.failed();
        }

        private void convert(ProcessingContext<SourceRecord> context, SourceRecord out, Set<Header> originals) {
            RecordHeaders headers = new RecordHeaders(); // converters may add headers
            step(context, Stage.HEADER_CONVERTER, headerConverter, () -> addHeaders(out, originals, headers));
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

        /** Converts headers, except the record's original ones, which are already bytes. */
        private Void addHeaders(SourceRecord out, Set<Header> originals, RecordHeaders headers) {
            for (org.apache.kafka.common.header.Header header : headers.toArray()) {
                headers.remove(header.key()); // left over from an earlier attempt
            }
            boolean refusesNul = Boolean.TRUE.equals(head.get("refuses_nul")); // the writer of the rows would truncate the name
            for (Header header : out.headers()) {
                if (refusesNul && header.key().indexOf('\0') >= 0) {
                    throw new DataException("The header name '" + header.key().replace("\0", "\\x00")
                        + "' of a record for the topic " + out.topic() + " contains NUL, which cannot be written with"
                        + " exactly-once support; use a name without NUL");
                }
                headers.add(header.key(), originals.contains(header)
                    ? (byte[]) header.value()
                    : headerConverter.fromConnectHeader(out.topic(), header.key(), header.schema(), header.value()));
            }
            return null;
        }

        private RecordHeaders originalHeaders(SourceRecord record) {
            RecordHeaders headers = new RecordHeaders();
            record.headers().forEach(header -> headers.add(header.key(), (byte[]) header.value()));
            return headers;
        }

        private byte[] deadLetterBytes(Converter converter, SourceRecord record, Schema schema, Object value) {
            if (value == null) {
                return null;
            }
            try {
                return inLoader(
                    converter, () -> converter.fromConnectData(record.topic(), new RecordHeaders(), schema, value));
            } catch (Exception | LinkageError e) {
                return fallbackBytes(record.topic(), schema, value);
            }
        }

        private byte[] fallbackBytes(String topic, Schema schema, Object value) {
            try {
                return SCHEMALESS_JSON_CONVERTER.fromConnectData(topic, schema, value);
            } catch (RuntimeException e) {
                return String.valueOf(value).getBytes(StandardCharsets.UTF_8);
            }
        }

        private List<SourceRecord> records(Frame request) throws Exception {
            Schema keySchema = schema("key_schema");
            Schema valueSchema = schema("value_schema");
            Map<String, Columns.Column> columns = Columns.readAll(
                request, name -> "key".equals(name) ? keySchema : "value".equals(name) ? valueSchema : null);
            Columns.Column nulls = row -> null;
            Columns.Column topics = columns.getOrDefault("topic", row -> head.get("topic"));
            Columns.Column times = columns.getOrDefault("timestamp", row -> head.get("timestamp"));
            Columns.Column partitions = columns.getOrDefault("partition", nulls);
            Columns.Column headers = columns.getOrDefault("headers", nulls);
            Columns.Column keys = columns.getOrDefault("key", nulls);
            Columns.Column values = columns.getOrDefault("value", nulls);
            int count = ((Number) head.get("count")).intValue();
            List<SourceRecord> all = new ArrayList<>(count);
            for (int row = 0; row < count; row++) {
                Long partition = (Long) partitions.get(row);
                all.add(new SourceRecord(
                    source("source_partition"), source("source_offset"), (String) topics.get(row),
                    partition == null ? null : partition.intValue(),
                    keySchema, keys.get(row), valueSchema, values.get(row), millis(times.get(row)),
                    connectHeaders((List<?>) headers.get(row))));
            }
            return all;
        }

        /** Returns a timestamp in milliseconds, from a column's Date or from the batch's number. */
        private static Long millis(Object time) {
            return time instanceof Date date ? (Long) date.getTime() : (Long) time;
        }

        private Map<String, Object> source(String name) {
            return Columns.object(head.get(name));
        }

        private Iterable<Header> connectHeaders(List<?> headers) {
            ConnectHeaders all = new ConnectHeaders();
            if (headers != null) {
                for (Object item : headers) {
                    Map<String, Object> header = Columns.object(item);
                    all.add((String) header.get("key"), header.get("value"), Schema.OPTIONAL_BYTES_SCHEMA);
                }
            }
            return all;
        }

        private Schema schema(String name) throws Exception {
            Object text = head.get(name);
            return text == null ? null : JSON_CONVERTER.asConnectSchema(MAPPER.readTree((String) text));
        }
    }
}
