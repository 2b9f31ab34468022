package kraal.testing;

import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/** A predicate that matches all records, with configurable {@link Faults}. */
public final class FaultyPredicate<R extends ConnectRecord<R>> implements Predicate<R> {
    private Map<String, ?> config;

    @Override
    public void configure(Map<String, ?> props) {
        config = props;
        Faults.at("predicate.configure", config);
    }

    @Override
    public boolean test(R record) {
        Faults.at("predicate.test", config);
        return true;
    }

    @Override
    public ConfigDef config() {
        return Faults.define(new ConfigDef(), "predicate.configure", "predicate.test", "predicate.close");
    }

    @Override
    public void close() {
        Faults.at("predicate.close", config);
    }
}
