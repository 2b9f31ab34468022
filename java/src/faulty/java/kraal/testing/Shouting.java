package kraal.testing;

import java.nio.charset.StandardCharsets;
import java.util.Locale;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.connect.components.Versioned;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.storage.Converter;

/** A converter that writes values in upper case and adds a header. Rejects values that contain {@code ?}. */
public final class Shouting implements Converter, Versioned {
    @Override
    public String version() {
        return "1.2.3";
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef();
    }

    @Override
    public void configure(Map<String, ?> configs, boolean isKey) {
        // no settings
    }

    @Override
    public byte[] fromConnectData(String topic, Schema schema, Object value) {
        String text = String.valueOf(value);
        if (text.contains("?")) {
            throw new DataException("a question: " + text);
        }
        return value == null ? null : text.toUpperCase(Locale.ROOT).getBytes(StandardCharsets.UTF_8);
    }

    @Override
    public byte[] fromConnectData(String topic, Headers headers, Schema schema, Object value) {
        headers.add("shouted", new byte[] {1});
        return fromConnectData(topic, schema, value);
    }

    @Override
    public SchemaAndValue toConnectData(String topic, byte[] value) {
        return new SchemaAndValue(
            Schema.OPTIONAL_STRING_SCHEMA, value == null ? null : new String(value, StandardCharsets.UTF_8));
    }
}
