package kraal.testing;

import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.Metadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.internals.ClusterResourceListeners;
import org.apache.kafka.common.utils.AbstractIterator;
import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.common.utils.CollectionUtils;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.PrimitiveRef;
import org.apache.kafka.common.utils.ThreadUtils;
import org.apache.kafka.connect.components.Versioned;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.transforms.Transformation;

/**
 * A transform built with Kafka 4.3 that uses classes moved or removed in Kafka 4.4. The documentation of each config key
 * is the result of one use.
 */
public class UtilsBefore44<R extends ConnectRecord<R>> implements Transformation<R>, Versioned {
    @Override
    public String version() {
        return AppInfoParser.getVersion();
    }

    @Override
    public ConfigDef config() {
        ConfigDef definition = new ConfigDef();
        results().forEach((name, result) -> definition.define(name, ConfigDef.Type.STRING, "", ConfigDef.Importance.LOW, result));
        return definition;
    }

    private static Map<String, String> results() {
        LogContext logContext = new LogContext("[prefix] ");
        new Metadata(1, 1, 1, logContext, new ClusterResourceListeners()); // passes the instance to Kafka
        PrimitiveRef.IntRef nested = PrimitiveRef.ofInt(7);
        return Map.of(
            "class", AppInfoParser.class.getName() + "@" + System.identityHashCode(AppInfoParser.class),
            "exit", exit(),
            "literal", literal(),
            "log", logContext.logPrefix(),
            "nested", String.valueOf(nested.value),
            "removed", CollectionUtils.groupPartitionsByTopic(List.of(new TopicPartition("t", 3))).toString(),
            "subclass", new EmptyIterator().hasNext() ? "an element" : "empty",
            "thread", ThreadUtils.createThreadFactory("worker-%d", true).newThread(() -> { }).getName());
    }

    private static String exit() {
        try {
            Exit.exit(3);
            return "ended";
        } catch (SecurityException e) {
            return e.getMessage();
        }
    }

    private static String literal() {
        try {
            return Class.forName("org.apache.kafka.common.utils.Sanitizer").getSimpleName();
        } catch (ClassNotFoundException e) {
            return "missing";
        }
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

    private static final class EmptyIterator extends AbstractIterator<String> {
        @Override
        protected String makeNext() {
            return allDone();
        }
    }
}
