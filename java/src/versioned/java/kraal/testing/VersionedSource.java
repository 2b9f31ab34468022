package kraal.testing;

import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/** A source of one record with the versions of its connector and its task. */
public final class VersionedSource extends SourceConnector {
    private Map<String, String> config;

    @Override
    public String version() {
        return Versioned.version();
    }

    @Override
    public void start(Map<String, String> props) {
        config = props;
    }

    @Override
    public Class<? extends Task> taskClass() {
        return SingleRecordTask.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int maxTasks) {
        return List.of(Map.of("topic", config.get("topic"), "connector", version()));
    }

    @Override
    public void stop() {
        // no resources
    }

    @Override
    public ConfigDef config() {
        return Versioned.keys()
            .define("topic", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "Topic of the record.");
    }

    /** Returns the record once. */
    public static final class SingleRecordTask extends SourceTask {
        private Map<String, String> config;
        private boolean hasReturned;

        @Override
        public String version() {
            return Versioned.version();
        }

        @Override
        public void start(Map<String, String> props) {
            config = props;
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            if (hasReturned) {
                Thread.sleep(10);
                return null;
            }
            hasReturned = true;
            String text = "connector " + config.get("connector") + ", task " + version();
            return List.of(new SourceRecord(
                Map.of("one", 1), Map.of("at", 1), config.get("topic"), null, null, Schema.STRING_SCHEMA, text));
        }

        @Override
        public void stop() {
            // poll returns soon
        }
    }
}
