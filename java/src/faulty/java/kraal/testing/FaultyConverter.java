package kraal.testing;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;

/** A converter of strings and headers with configurable {@link Faults}. */
public final class FaultyConverter implements Converter, HeaderConverter {
    private Map<String, ?> config;

    @Override
    public String version() {
        return "1.2.3";
    }

    @Override
    public void configure(Map<String, ?> props) {
        config = props;
        Faults.at("converter.configure", config);
    }

    @Override
    public void configure(Map<String, ?> props, boolean isKey) {
        configure(props);
    }

    @Override
    public byte[] fromConnectData(String topic, Schema schema, Object value) {
        Faults.at("converter.fromConnectData", config);
        return value == null ? null : value.toString().getBytes(StandardCharsets.UTF_8);
    }

    @Override
    public SchemaAndValue toConnectData(String topic, byte[] value) {
        Faults.at("converter.toConnectData", config);
        String text = value == null ? null : new String(value, StandardCharsets.UTF_8);
        return new SchemaAndValue(Schema.OPTIONAL_STRING_SCHEMA, text);
    }

    @Override
    public byte[] fromConnectHeader(String topic, String key, Schema schema, Object value) {
        Faults.at("converter.fromConnectHeader", config);
        return fromConnectData(topic, schema, value);
    }

    @Override
    public SchemaAndValue toConnectHeader(String topic, String key, byte[] value) {
        Faults.at("converter.toConnectHeader", config);
        return toConnectData(topic, value);
    }

    @Override
    public ConfigDef config() {
        return Faults.define(
            new ConfigDef(), "converter.configure", "converter.fromConnectData", "converter.toConnectData",
            "converter.fromConnectHeader", "converter.toConnectHeader", "converter.close");
    }

    @Override
    public void close() throws IOException {
        Faults.at("converter.close", config);
    }
}
