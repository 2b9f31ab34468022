package kraal.testing;

import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.utils.internals.AppInfoParser;
import org.apache.kafka.connect.components.Versioned;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.transforms.Transformation;

/** A transform built with Kafka 4.4 that uses a moved class by its new name. */
public class UtilsSince44<R extends ConnectRecord<R>> implements Transformation<R>, Versioned {
    @Override
    public String version() {
        return AppInfoParser.getVersion();
    }

    @Override
    public ConfigDef config() {
        String result = AppInfoParser.class.getName() + "@" + System.identityHashCode(AppInfoParser.class);
        return new ConfigDef().define("class", ConfigDef.Type.STRING, "", ConfigDef.Importance.LOW, result);
    }

    @Override
    public R apply(R value) {
        return value;
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
