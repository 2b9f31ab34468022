package kraal.testing;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/** A source whose tasks return batches of row changes, as Debezium does, at a configurable rate. */
public final class BatchSource extends SourceConnector {
    private Map<String, String> config;

    @Override
    public String version() {
        return "1.0";
    }

    @Override
    public void start(Map<String, String> props) {
        config = props;
    }

    @Override
    public Class<? extends Task> taskClass() {
        return BatchTask.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int maxTasks) {
        List<Map<String, String>> configs = new ArrayList<>();
        for (int task = 0; task < maxTasks; task++) {
            Map<String, String> taskConfig = new HashMap<>(config);
            taskConfig.put("id", "" + task);
            configs.add(taskConfig);
        }
        return configs;
    }

    @Override
    public void stop() {
        // no resources
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef()
            .define("topic", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "Topic of the changes.")
            .define("poll.us", ConfigDef.Type.LONG, 500_000, ConfigDef.Importance.LOW, "Duration of a poll in microseconds.")
            .define("batch.size", ConfigDef.Type.INT, 1, ConfigDef.Importance.LOW, "Number of records per poll.");
    }

    /** Returns one batch per poll. The offset contains the number of polls and the number of offset flushes. */
    public static final class BatchTask extends SourceTask {
        private static final Schema KEY = SchemaBuilder.struct().field("id", Schema.INT64_SCHEMA).build();
        private static final Schema ROW = SchemaBuilder.struct().optional()
            .field("id", Schema.INT64_SCHEMA).field("name", Schema.OPTIONAL_STRING_SCHEMA).build();
        private static final Schema CHANGE = SchemaBuilder.struct()
            .field("before", ROW).field("after", ROW).field("op", Schema.STRING_SCHEMA).build();
        private String topic;
        private long pollNanos;
        private int batchSize;
        private Map<String, String> partition;
        private long polls;
        private volatile long flushes;

        @Override
        public String version() {
            return "1.0";
        }

        @Override
        public void start(Map<String, String> props) {
            topic = props.get("topic");
            pollNanos = 1000 * Long.parseLong(props.getOrDefault("poll.us", "500000"));
            batchSize = Integer.parseInt(props.getOrDefault("batch.size", "1"));
            partition = Map.of("task", props.get("id"));
        }

        @Override
        public List<SourceRecord> poll() {
            LockSupport.parkNanos(pollNanos);
            polls++;
            Map<String, Long> offset = Map.of("polls", polls, "flushes", flushes);
            List<SourceRecord> batch = new ArrayList<>(batchSize);
            for (int i = 0; i < batchSize; i++) {
                Struct row = new Struct(ROW).put("id", (long) i).put("name", "of poll " + polls);
                batch.add(new SourceRecord(
                    partition, offset, topic, null, KEY, new Struct(KEY).put("id", (long) i), CHANGE,
                    new Struct(CHANGE).put("after", row).put("op", "c")));
            }
            return batch;
        }

        @Override
        public void commit() {
            flushes++;
        }

        @Override
        public void stop() {
            // a poll returns without being interrupted
        }
    }
}
