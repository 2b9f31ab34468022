package kraal.testing;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.config.Config;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.metrics.Gauge;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.source.ConnectorTransactionBoundaries;
import org.apache.kafka.connect.source.ExactlyOnceSupport;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.apache.kafka.connect.source.SourceTaskContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** A source of consecutive numbers with configurable {@link Faults}. */
public final class FaultySource extends SourceConnector {
    private static final Logger LOG = LoggerFactory.getLogger(FaultySource.class);
    private static final AtomicLong STARTS = new AtomicLong();
    private Map<String, String> config;
    private volatile boolean isWatching;

    @Override
    public String version() {
        return "1.2.3";
    }

    @Override
    public void start(Map<String, String> props) {
        config = props;
        count(context().pluginMetrics(), "connector-starts-total");
        Faults.at("connector.start", config);
        if (!props.getOrDefault("tasks.file", "").isEmpty()) {
            isWatching = true;
            Thread watcher = new Thread(this::watch, "tasks-of-" + props.get("topic"));
            watcher.setDaemon(true);
            watcher.start();
        }
    }

    /** Requests a task reconfiguration when the number in the file changes. */
    private void watch() {
        int last = readTaskCount(Integer.MAX_VALUE);
        while (isWatching) {
            LockSupport.parkNanos(20_000_000);
            int now = readTaskCount(Integer.MAX_VALUE);
            if (isWatching && now != last) {
                last = now;
                context().requestTaskReconfiguration();
            }
        }
    }

    private int readTaskCount(int maxTasks) {
        String file = config.getOrDefault("tasks.file", "");
        try {
            return file.isEmpty() ? maxTasks : Math.min(maxTasks, Integer.parseInt(Files.readString(Path.of(file))));
        } catch (IOException e) {
            throw new ConnectException(e);
        }
    }

    @Override
    public Class<? extends Task> taskClass() {
        Faults.at("connector.taskClass", config);
        return FaultySourceTask.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int maxTasks) {
        Faults.at("connector.taskConfigs", config);
        List<Map<String, String>> configs = new ArrayList<>();
        int taskCount = "tasks".equals(config.get("fault")) ? maxTasks + 1 : readTaskCount(maxTasks);
        for (int task = 0; task < taskCount; task++) {
            Map<String, String> taskConfig = new HashMap<>(config);
            taskConfig.put("id", "" + task);
            configs.add(taskConfig);
        }
        return configs;
    }

    @Override
    public void stop() {
        isWatching = false;
        LOG.info("Stopped the connector of topic {}", config.get("topic"));
        Faults.at("connector.stop", config);
    }

    @Override
    public Config validate(Map<String, String> props) {
        Faults.at("connector.validate", props);
        return super.validate(props);
    }

    @Override
    public ConfigDef config() {
        ConfigDef keys = new ConfigDef()
            .define("topic", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "Topic of the numbers.")
            .define(
                "tasks.file", ConfigDef.Type.STRING, "", ConfigDef.Importance.LOW,
                "Path of a file with the number of tasks, which may change. Default: `tasks.max` tasks.")
            .define("pause.ms", ConfigDef.Type.LONG, 10, ConfigDef.Importance.LOW, "Delay before each poll in milliseconds.");
        return Faults.define(
            keys, "connector.start", "connector.taskClass", "connector.taskConfigs", "connector.stop",
            "connector.validate", "connector.exactlyOnceSupport", "connector.canDefineTransactionBoundaries",
            "connector.alterOffsets", "task.initialize", "task.start", "task.poll", "task.commitRecord", "task.commit",
            "task.stop");
    }

    @Override
    public ExactlyOnceSupport exactlyOnceSupport(Map<String, String> props) {
        Faults.at("connector.exactlyOnceSupport", props);
        return ExactlyOnceSupport.SUPPORTED;
    }

    @Override
    public ConnectorTransactionBoundaries canDefineTransactionBoundaries(Map<String, String> props) {
        Faults.at("connector.canDefineTransactionBoundaries", props);
        return ConnectorTransactionBoundaries.SUPPORTED;
    }

    @Override
    public boolean alterOffsets(Map<String, String> props, Map<Map<String, ?>, Map<String, ?>> offsets) {
        Faults.at("connector.alterOffsets", props);
        return true;
    }

    /** Counts a start and publishes the count as a metric, so that tests can tell starts apart. */
    private static void count(PluginMetrics metrics, String name) {
        long startCount = STARTS.incrementAndGet();
        metrics.addMetric(
            metrics.metricName(name, "Number of starts, including this one.", new LinkedHashMap<>()),
            (Gauge<Long>) (config, now) -> startCount);
    }

    /** Returns one number per poll. Every tenth number ends a transaction if the task defines the boundaries. */
    public static final class FaultySourceTask extends SourceTask {
        private Map<String, String> config;
        private long pauseMs;
        private long next;

        @Override
        public String version() {
            return "1.2.3";
        }

        @Override
        public void initialize(SourceTaskContext taskContext) {
            super.initialize(taskContext);
            Faults.at("task.initialize", taskContext.configs());
        }

        @Override
        public void start(Map<String, String> props) {
            config = props;
            count(context.pluginMetrics(), "task-starts-total");
            pauseMs = Long.parseLong(props.getOrDefault("pause.ms", "10"));
            Map<String, Object> offset = context.offsetStorageReader().offset(partition());
            next = offset == null ? 0 : (Long) offset.get("next");
            Faults.at("task.start", config);
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            Thread.sleep(pauseMs);
            Faults.at("task.poll", config);
            next++;
            if (context.transactionContext() != null && next % 10 == 0) {
                context.transactionContext().commitTransaction();
            }
            return List.of(new SourceRecord(
                partition(), Map.of("next", next), config.get("topic"), null, null, null, Schema.STRING_SCHEMA,
                "" + (next - 1), System.currentTimeMillis()));
        }

        @Override
        public void commitRecord(SourceRecord record, RecordMetadata metadata) {
            Faults.at("task.commitRecord", config);
        }

        @Override
        public void commit() {
            Faults.at("task.commit", config);
        }

        @Override
        public void stop() {
            Faults.at("task.stop", config);
        }

        private Map<String, String> partition() {
            return Map.of("id", config.get("id"));
        }
    }
}
