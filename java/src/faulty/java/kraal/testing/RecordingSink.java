package kraal.testing;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Collection;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;
import org.apache.kafka.connect.sink.SinkTaskContext;

/**
 * A sink that appends each call of its methods to a file as a line, and executes the actions of the key {@code actions}.
 *
 * <p>A line consists of the method's name and arguments, such as {@code put a-0:7 a-0:8}. A partition is written as
 * {@code topic-partition}, a record or an offset as {@code topic-partition:offset}. The lines of the connector's calls
 * start with {@code connector.}, those of calls of the task's context with {@code context.}.
 */
public final class RecordingSink extends SinkConnector {
    private Map<String, String> config;

    @Override
    public String version() {
        return "1.0";
    }

    @Override
    public void start(Map<String, String> props) {
        config = props;
        append(config, "connector.start", Stream.empty());
    }

    @Override
    public Class<? extends Task> taskClass() {
        return RecordingSinkTask.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int maxTasks) {
        append(config, "connector.taskConfigs", Stream.of("" + maxTasks));
        return Collections.nCopies(maxTasks, config);
    }

    @Override
    public void stop() {
        append(config, "connector.stop", Stream.empty());
    }

    @Override
    public boolean alterOffsets(Map<String, String> props, Map<TopicPartition, Long> offsets) {
        append(props, "connector.alterOffsets", offsets.entrySet().stream().map(e -> e.getKey() + ":" + e.getValue()));
        return true;
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef()
            .define("file", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "The file that calls are appended to.")
            .define(
                "actions", ConfigDef.Type.LIST, List.of(), ConfigDef.Importance.LOW,
                "Actions of the task, each as `TRIGGER VERB [ARGUMENT]`. The trigger is `open`, or a record as "
                    + "topic-partition:offset. The verbs are `commit`, `timeout MS`, `rewind RECORD` (once), "
                    + "`pause PARTITION`, `resume PARTITION`, `retry TIMES` and `fail`.");
    }

    private static synchronized void append(Map<String, String> config, String method, Stream<String> arguments) {
        String line = Stream.concat(Stream.of(method), arguments.sorted()).reduce((a, b) -> a + " " + b).orElseThrow();
        try {
            Files.write(
                Path.of(config.get("file")), List.of(line), StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException e) {
            throw new ConnectException(e);
        }
    }

    /** Appends each call of its methods to the file. */
    public static final class RecordingSinkTask extends SinkTask {
        private Map<String, String> config;
        private final Set<String> rewound = new HashSet<>();
        private int retries;

        @Override
        public String version() {
            return "1.0";
        }

        @Override
        public void initialize(SinkTaskContext taskContext) {
            super.initialize(taskContext);
            config = taskContext.configs();
            append(config, "initialize", Stream.empty());
        }

        @Override
        public void start(Map<String, String> props) {
            append(config, "start", Stream.empty());
        }

        @Override
        public void open(Collection<TopicPartition> partitions) {
            append(config, "open", partitions.stream().map(TopicPartition::toString));
            act("open");
        }

        @Override
        public void put(Collection<SinkRecord> records) {
            List<String> positions = records.stream()
                .map(record -> record.originalTopic() + "-" + record.originalKafkaPartition() + ":" + record.originalKafkaOffset())
                .toList();
            append(config, "put", positions.stream());
            positions.forEach(this::act);
        }

        private void act(String trigger) {
            for (String action : config.getOrDefault("actions", "").split(",")) {
                String[] words = action.split(" ");
                if (words[0].equals(trigger)) {
                    act(words[1], words.length > 2 ? words[2] : "");
                }
            }
        }

        private void act(String verb, String argument) {
            switch (verb) {
                case "commit" -> {
                    append(config, "context.requestCommit", Stream.empty());
                    context.requestCommit();
                }
                case "timeout" -> context.timeout(Long.parseLong(argument));
                case "rewind" -> {
                    if (rewound.add(argument)) {
                        append(config, "context.offset", Stream.of(argument));
                        int colon = argument.lastIndexOf(':');
                        context.offset(
                            partition(argument.substring(0, colon)), Long.parseLong(argument.substring(colon + 1)));
                    }
                }
                case "pause" -> {
                    append(config, "context.pause", Stream.of(argument));
                    context.pause(partition(argument));
                }
                case "resume" -> {
                    append(config, "context.resume", Stream.of(argument));
                    context.resume(partition(argument));
                }
                case "retry" -> {
                    if (retries < Integer.parseInt(argument)) {
                        retries++;
                        append(config, "throws", Stream.of("RetriableException"));
                        throw new RetriableException("put fails for now");
                    }
                }
                case "fail" -> {
                    append(config, "throws", Stream.of("ConnectException"));
                    throw new ConnectException("put fails");
                }
                default -> throw new ConnectException("The action " + verb + " is unknown");
            }
        }

        private static TopicPartition partition(String text) {
            int dash = text.lastIndexOf('-');
            return new TopicPartition(text.substring(0, dash), Integer.parseInt(text.substring(dash + 1)));
        }

        @Override
        public Map<TopicPartition, OffsetAndMetadata> preCommit(Map<TopicPartition, OffsetAndMetadata> offsets) {
            append(config, "preCommit", format(offsets));
            return super.preCommit(offsets);
        }

        @Override
        public void flush(Map<TopicPartition, OffsetAndMetadata> offsets) {
            append(config, "flush", format(offsets));
        }

        private static Stream<String> format(Map<TopicPartition, OffsetAndMetadata> offsets) {
            return offsets.entrySet().stream().map(entry -> entry.getKey() + ":" + entry.getValue().offset());
        }

        @Override
        public void close(Collection<TopicPartition> partitions) {
            append(config, "close", partitions.stream().map(TopicPartition::toString));
        }

        @Override
        public void stop() {
            append(config, "stop", Stream.empty());
        }
    }
}
