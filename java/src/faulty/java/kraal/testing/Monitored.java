package kraal.testing;

import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.atomic.LongAdder;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.metrics.Gauge;
import org.apache.kafka.common.metrics.Monitorable;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/** One plugin of each kind that a task uses. Each plugin counts its calls in a metric (KIP-877). */
public final class Monitored {
    private Monitored() {
    }

    /** A plugin that counts its calls. */
    private abstract static class Counter implements Monitorable {
        final LongAdder calls = new LongAdder();

        @Override
        public void withPluginMetrics(PluginMetrics metrics) {
            metrics.addMetric(
                metrics.metricName("calls-total", "Calls of the plugin.", new LinkedHashMap<>(Map.of("kind", kind()))),
                (Gauge<Long>) (config, now) -> calls.sum());
        }

        private String kind() {
            return getClass().getSimpleName();
        }

        public ConfigDef config() {
            return new ConfigDef();
        }

        public void configure(Map<String, ?> configs) {
            // no settings
        }

        public void configure(Map<String, ?> configs, boolean isKey) {
            // no settings
        }

        public void close() {
            // no resources
        }
    }

    /** A transform that fails for numbers that end in 3. */
    public static final class Transform extends Counter implements Transformation<SourceRecord> {
        @Override
        public SourceRecord apply(SourceRecord record) {
            calls.increment();
            if (record.value().toString().endsWith("3")) {
                throw new DataException("a number that ends in 3");
            }
            return record;
        }
    }

    /** A predicate that matches all records. */
    public static final class Matches extends Counter implements Predicate<SourceRecord> {
        @Override
        public boolean test(SourceRecord record) {
            calls.increment();
            return true;
        }
    }

    /** A converter that writes values as text. */
    public static final class Text extends Counter implements Converter {
        @Override
        public byte[] fromConnectData(String topic, Schema schema, Object value) {
            calls.increment();
            return value == null ? null : value.toString().getBytes(StandardCharsets.UTF_8);
        }

        @Override
        public SchemaAndValue toConnectData(String topic, byte[] value) {
            throw new UnsupportedOperationException();
        }
    }

    /** A converter that writes headers as text. */
    public static final class Headers extends Counter implements HeaderConverter {
        @Override
        public byte[] fromConnectHeader(String topic, String key, Schema schema, Object value) {
            calls.increment();
            return String.valueOf(value).getBytes(StandardCharsets.UTF_8);
        }

        @Override
        public SchemaAndValue toConnectHeader(String topic, String key, byte[] value) {
            throw new UnsupportedOperationException();
        }
    }
}
