package kraal.testing;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.components.Versioned;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;

/** A converter that adds its version to the text of a value. */
public final class VersionedConverter implements Converter, HeaderConverter, Versioned {
    @Override
    public String version() {
        return kraal.testing.Versioned.version();
    }

    @Override
    public void configure(Map<String, ?> configs, boolean isKey) {
        // no settings
    }

    @Override
    public byte[] fromConnectData(String topic, Schema schema, Object value) {
        return value == null ? null : (value + ", converter " + version()).getBytes(StandardCharsets.UTF_8);
    }

    @Override
    public SchemaAndValue toConnectData(String topic, byte[] value) {
        return new SchemaAndValue(Schema.OPTIONAL_BYTES_SCHEMA, value);
    }

    @Override
    public byte[] fromConnectHeader(String topic, String headerKey, Schema schema, Object value) {
        return fromConnectData(topic, schema, value);
    }

    @Override
    public SchemaAndValue toConnectHeader(String topic, String headerKey, byte[] value) {
        return toConnectData(topic, value);
    }

    @Override
    public ConfigDef config() {
        return kraal.testing.Versioned.keys();
    }

    @Override
    public void configure(Map<String, ?> configs) {
        // no settings
    }

    @Override
    public void close() {
        // no resources
    }
}
