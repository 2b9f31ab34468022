package kraal.testing;

import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.components.Versioned;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/** A predicate that is true in version 1.0 only. */
public final class VersionedPredicate<R extends ConnectRecord<R>> implements Predicate<R>, Versioned {
    @Override
    public String version() {
        return kraal.testing.Versioned.version();
    }

    @Override
    public boolean test(R record) {
        return "1.0".equals(version());
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
