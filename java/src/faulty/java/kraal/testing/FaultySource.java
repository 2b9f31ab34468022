package kraal.testing;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.source.ConnectorTransactionBoundaries;
import org.apache.kafka.connect.source.ExactlyOnceSupport;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/** A source that counts, and misbehaves in the way that {@code fault} names. */
public final class FaultySource extends SourceConnector {
    private Map<String, String> config;

    @Override
    public String version() {
        return "1.2.3";
    }

    @Override
    public void start(Map<String, String> props) {
        config = props;
        if ("start-connector".equals(props.get("fault"))) {
            throw new ConnectException("the connector does not start");
        }
    }

    @Override
    public Class<? extends Task> taskClass() {
        return Counting.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int maxTasks) {
        List<Map<String, String>> all = new ArrayList<>();
        for (int task = 0; task < maxTasks; task++) {
            all.add(Map.of("fault", config.getOrDefault("fault", ""), "topic", config.get("topic"), "id", "" + task));
        }
        return all;
    }

    @Override
    public void stop() {
        // nothing is open
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef()
            .define("topic", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "Where the numbers go.")
            .define(
                "fault", ConfigDef.Type.STRING, "",
                ConfigDef.ValidString.in(
                    "", "start-connector", "start", "poll", "exit", "memory", "block-poll", "block-start", "ignore-stop"),
                ConfigDef.Importance.LOW, "What goes wrong.");
    }

    @Override
    public ExactlyOnceSupport exactlyOnceSupport(Map<String, String> props) {
        return ExactlyOnceSupport.SUPPORTED;
    }

    @Override
    public ConnectorTransactionBoundaries canDefineTransactionBoundaries(Map<String, String> props) {
        return ConnectorTransactionBoundaries.SUPPORTED;
    }

    @Override
    public boolean alterOffsets(Map<String, String> props, Map<Map<String, ?>, Map<String, ?>> offsets) {
        return true;
    }

    /** Counts: one record every 10 ms; every tenth ends a transaction where the task decides. */
    public static final class Counting extends SourceTask {
        private Map<String, String> config;
        private long next;

        @Override
        public String version() {
            return "1.2.3";
        }

        @Override
        public void start(Map<String, String> props) {
            config = props;
            Map<String, Object> offset = context.offsetStorageReader().offset(partition());
            next = offset == null ? 0 : (Long) offset.get("next");
            if (fault("start")) {
                throw new ConnectException("the task does not start");
            }
            if (fault("block-start")) {
                forEver();
            }
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            Thread.sleep(10);
            if (fault("poll")) {
                throw new ConnectException("poll fails");
            }
            if (fault("exit")) {
                System.exit(3);
            }
            if (fault("memory")) {
                throw new OutOfMemoryError("as if there were no memory");
            }
            if (fault("block-poll") || fault("ignore-stop")) {
                forEver();
            }
            next++;
            if (context.transactionContext() != null && next % 10 == 0) {
                context.transactionContext().commitTransaction();
            }
            return List.of(new SourceRecord(
                partition(), Map.of("next", next), config.get("topic"), Schema.STRING_SCHEMA, "" + (next - 1)));
        }

        @Override
        public void stop() {
            // poll returns soon
        }

        private Map<String, String> partition() {
            return Map.of("id", config.get("id"));
        }

        private boolean fault(String name) {
            return name.equals(config.get("fault"));
        }

        private static void forEver() {
            while (true) {
                try {
                    new CountDownLatch(1).await();
                } catch (InterruptedException e) {
                    // a plugin that does not listen
                }
            }
        }
    }
}
