package kraal.testing;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;
import org.apache.kafka.connect.sink.SinkTaskContext;

/** A sink that appends values to a file, with configurable {@link Faults}. */
public final class FaultySink extends SinkConnector {
    private Map<String, String> config;

    @Override
    public String version() {
        return "1.2.3";
    }

    @Override
    public void start(Map<String, String> props) {
        config = props;
    }

    @Override
    public Class<? extends Task> taskClass() {
        return FaultySinkTask.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int maxTasks) {
        return Collections.nCopies(maxTasks, config);
    }

    @Override
    public void stop() {
        // no resources
    }

    @Override
    public ConfigDef config() {
        ConfigDef keys = new ConfigDef()
            .define("file", ConfigDef.Type.STRING, "", ConfigDef.Importance.LOW, "Path of the file. Default: no file.")
            .define(
                "commit.behind", ConfigDef.Type.LONG, 0, ConfigDef.Importance.LOW,
                "Number of records per partition to leave uncommitted; -1: commit no offsets.");
        return Faults.define(
            keys, "task.initialize", "task.start", "task.open", "task.put", "task.preCommit", "task.flush",
            "task.close", "task.stop");
    }

    /** Appends the value of each record to the file as a line. */
    public static final class FaultySinkTask extends SinkTask {
        private Map<String, String> config;

        @Override
        public String version() {
            return "1.2.3";
        }

        @Override
        public void initialize(SinkTaskContext taskContext) {
            super.initialize(taskContext);
            Faults.at("task.initialize", taskContext.configs());
        }

        @Override
        public void start(Map<String, String> props) {
            config = props;
            Faults.at("task.start", config);
        }

        @Override
        public void open(Collection<TopicPartition> partitions) {
            Faults.at("task.open", config);
        }

        @Override
        public void put(Collection<SinkRecord> records) {
            if (!records.isEmpty()) {
                Faults.at("task.put", config);
            }
            String file = config.getOrDefault("file", "");
            if (!file.isEmpty()) {
                append(Path.of(file), records.stream().map(record -> String.valueOf(record.value())).toList());
            }
        }

        private static void append(Path file, List<String> lines) {
            try {
                Files.write(file, lines, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            } catch (IOException e) {
                throw new ConnectException(e);
            }
        }

        @Override
        public Map<TopicPartition, OffsetAndMetadata> preCommit(Map<TopicPartition, OffsetAndMetadata> offsets) {
            Faults.at("task.preCommit", config);
            super.preCommit(offsets);
            long behind = Long.parseLong(config.getOrDefault("commit.behind", "0"));
            Map<TopicPartition, OffsetAndMetadata> offsetsToCommit = new HashMap<>();
            if (behind >= 0) {
                offsets.forEach((partition, offset) -> offsetsToCommit.put(
                    partition, new OffsetAndMetadata(Math.max(0, offset.offset() - behind))));
            }
            return offsetsToCommit;
        }

        @Override
        public void flush(Map<TopicPartition, OffsetAndMetadata> offsets) {
            Faults.at("task.flush", config);
        }

        @Override
        public void close(Collection<TopicPartition> partitions) {
            Faults.at("task.close", config);
        }

        @Override
        public void stop() {
            Faults.at("task.stop", config);
        }
    }
}
