package kraal.testing;

import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.components.Versioned;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.transforms.Transformation;

/** A transform that adds its version to the value. */
public final class VersionedTransform<R extends ConnectRecord<R>> implements Transformation<R>, Versioned {
    @Override
    public String version() {
        return kraal.testing.Versioned.version();
    }

    @Override
    public R apply(R record) {
        return record.newRecord(
            record.topic(), record.kafkaPartition(), record.keySchema(), record.key(), record.valueSchema(),
            record.value() + ", transform " + version(), record.timestamp());
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
