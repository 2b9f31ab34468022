package kraal.plugins.chains;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Date;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.runtime.ConnectMetrics;
import org.apache.kafka.connect.runtime.errors.ProcessingContext;
import org.apache.kafka.connect.runtime.errors.Stage;
import org.apache.kafka.connect.runtime.isolation.Plugins;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.util.ConnectorTaskId;

/**
 * The chain of a Python sink, which converts bytes to text; see {@link Texts}. Source: WorkerSinkTask.
 *
 * <p>The response contains the original topics of all records that could be converted.
 */
final class SinkChain extends Chain<ConsumerRecord<byte[], byte[]>, SinkRecord> {

    SinkChain(Plugins plugins, ConnectMetrics metrics, ConnectorTaskId id, Map<String, String> config) {
        super(plugins, metrics, id, config);
    }

    @Override
    Frame processBatch(Frame request) throws Exception {
        return new Batch(request).run();
    }

    /** Processes one batch; stops at the first failed record if {@code stops} is true. */
    private final class Batch {
        private final Rows rows = new Rows();
        private final Rows.Longs offsets = new Rows.Longs();
        private final Rows.Longs times = new Rows.Longs();
        private final List<Object> faults = new ArrayList<>();
        private final Set<String> topics = new LinkedHashSet<>();
        private final List<ConsumerRecord<byte[], byte[]>> records;
        private final boolean stops;
        private final Texts texts;
        private int readCount;
        private int droppedCount;

        Batch(Frame request) {
            stops = Boolean.TRUE.equals(request.head().get("stops"));
            texts = Boolean.TRUE.equals(request.head().get("json")) ? Texts.JSON : Texts.PRINTED;
            records = records(request);
        }

        Frame run() throws Exception {
            for (ConsumerRecord<byte[], byte[]> record : records) {
                checkOpen();
                readCount++;
                ProcessingContext<ConsumerRecord<byte[], byte[]>> context = new ProcessingContext<>(record);
                process(context, record);
                if (!context.failed()) {
                    continue;
                }
                Map<String, Object> fault = fault(context, record.topic());
                fault.put("row", readCount - 1);
                faults.add(fault);
                if (stops) {
                    break;
                }
            }
            Map<String, Object> response = new LinkedHashMap<>();
            List<ByteBuffer> buffers = new ArrayList<>();
            response.put("read", readCount);
            response.put("dropped", droppedCount);
            response.put("faults", faults);
            response.put("topics", topics);
            response.put("rows", rows.writeTo(buffers));
            offsets.writeTo(buffers);
            times.writeTo(buffers);
            return new Frame(response, buffers);
        }

        private void process(
            ProcessingContext<ConsumerRecord<byte[], byte[]>> context, ConsumerRecord<byte[], byte[]> record) {
            String topic = record.topic();
            Map<Header, byte[]> originalBytes = new IdentityHashMap<>();
            SchemaAndValue key = step(context, Stage.KEY_CONVERTER, keyConverter,
                () -> keyConverter.toConnectData(topic, record.headers(), record.key()));
            SchemaAndValue value = context.failed() ? null : step(context, Stage.VALUE_CONVERTER, valueConverter,
                () -> valueConverter.toConnectData(topic, record.headers(), record.value()));
            ConnectHeaders headers = context.failed() ? null : step(context, Stage.HEADER_CONVERTER, headerConverter,
                () -> headers(record, originalBytes));
            if (context.failed()) {
                return;
            }
            topics.add(topic);
            SinkRecord original = new SinkRecord(
                topic, record.partition(), key.schema(), key.value(), value.schema(), value.value(), record.offset(),
                record.timestampType() == TimestampType.NO_TIMESTAMP_TYPE ? null : record.timestamp(),
                record.timestampType(), headers);
            SinkRecord out = transforms.apply(context, original);
            if (context.failed()) {
                return;
            }
            if (out == null) {
                droppedCount++;
                return;
            }
            step(context, Stage.HEADER_CONVERTER, headerConverter, () -> { // must not fail outside of a step
                if (out.topic() == null) {
                    throw new DataException("A transform has set the topic to null.");
                }
                RecordHeaders asBytes = bytes(out, originalBytes);
                byte[] keyText = texts.of(out.key());
                byte[] valueText = texts.of(out.value());
                rows.add(out.topic(), out.kafkaPartition(), asBytes, keyText, valueText);
                offsets.add(out.kafkaOffset());
                times.add(out.timestamp());
                return null;
            });
        }

        private ConnectHeaders headers(ConsumerRecord<byte[], byte[]> record, Map<Header, byte[]> originalBytes) {
            ConnectHeaders converted = new ConnectHeaders();
            for (org.apache.kafka.common.header.Header header : record.headers()) {
                converted.add(
                    header.key(), headerConverter.toConnectHeader(record.topic(), header.key(), header.value()));
            }
            originalBytes.clear(); // left over from an earlier attempt
            Iterator<org.apache.kafka.common.header.Header> raw = record.headers().iterator();
            converted.forEach(header -> originalBytes.put(header, raw.next().value()));
            return converted;
        }

        /** Converts headers to bytes; headers that no transform has changed keep their original bytes. */
        private RecordHeaders bytes(SinkRecord out, Map<Header, byte[]> originalBytes) {
            RecordHeaders headers = new RecordHeaders();
            for (Header header : out.headers()) {
                headers.add(header.key(), originalBytes.containsKey(header)
                    ? originalBytes.get(header)
                    : headerConverter.fromConnectHeader(out.topic(), header.key(), header.schema(), header.value()));
            }
            return headers;
        }
    }

    private static List<ConsumerRecord<byte[], byte[]>> records(Frame request) {
        Map<String, Columns.Column> columns = Columns.readAll(request, name -> null);
        int count = ((Number) request.head().get("count")).intValue();
        List<ConsumerRecord<byte[], byte[]>> all = new ArrayList<>(count);
        for (int row = 0; row < count; row++) {
            Date timestamp = (Date) columns.get("timestamp").get(row);
            byte[] key = (byte[]) columns.get("key").get(row);
            byte[] value = (byte[]) columns.get("value").get(row);
            TimestampType type = timestamp == null
                ? TimestampType.NO_TIMESTAMP_TYPE : timestampType(columns.get("timestampType").get(row));
            all.add(new ConsumerRecord<>(
                (String) columns.get("topic").get(row),
                ((Long) columns.get("partition").get(row)).intValue(),
                (Long) columns.get("offset").get(row),
                timestamp == null ? ConsumerRecord.NO_TIMESTAMP : timestamp.getTime(),
                type,
                key == null ? ConsumerRecord.NULL_SIZE : key.length,
                value == null ? ConsumerRecord.NULL_SIZE : value.length,
                key,
                value,
                headers((List<?>) columns.get("headers").get(row)),
                Optional.empty()));
        }
        return all;
    }

    /** Returns Kafka's timestamp type for an id. Defaults: CREATE_TIME for null, NO_TIMESTAMP_TYPE for an unknown id. */
    private static TimestampType timestampType(Object number) {
        long id = number == null ? TimestampType.CREATE_TIME.id : (Long) number;
        for (TimestampType type : TimestampType.values()) {
            if (type.id == id) {
                return type;
            }
        }
        return TimestampType.NO_TIMESTAMP_TYPE;
    }

    private static RecordHeaders headers(List<?> items) {
        RecordHeaders headers = new RecordHeaders();
        if (items != null) {
            for (Object item : items) {
                Map<String, Object> header = Columns.object(item);
                headers.add((String) header.get("key"), (byte[]) header.get("value"));
            }
        }
        return headers;
    }
}
