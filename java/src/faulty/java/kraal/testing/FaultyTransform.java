package kraal.testing;

import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.transforms.Transformation;

/** A transform that returns records unchanged, with configurable {@link Faults}. */
public final class FaultyTransform<R extends ConnectRecord<R>> implements Transformation<R> {
    private Map<String, ?> config;

    @Override
    public void configure(Map<String, ?> props) {
        config = props;
        Faults.at("transform.configure", config);
    }

    @Override
    public R apply(R record) {
        Faults.at("transform.apply", config);
        return record;
    }

    @Override
    public ConfigDef config() {
        return Faults.define(new ConfigDef(), "transform.configure", "transform.apply", "transform.close");
    }

    @Override
    public void close() {
        Faults.at("transform.close", config);
    }
}
