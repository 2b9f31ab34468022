package kraal.plugins;

import com.sun.management.UnixOperatingSystemMXBean;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryUsage;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.function.Predicate;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.connect.runtime.ConnectMetricsRegistry;
import org.apache.kafka.connect.util.ConnectorTaskId;

/** Reads the metrics of tasks in Kafka's worker, and of the JVM. Runs no plugin code. */
final class Measurements {
    private static final Set<String> TASK_GROUPS = Set.of(
        ConnectMetricsRegistry.TASK_GROUP_NAME, ConnectMetricsRegistry.SOURCE_TASK_GROUP_NAME,
        ConnectMetricsRegistry.SINK_TASK_GROUP_NAME, ConnectMetricsRegistry.TASK_ERROR_HANDLING_GROUP_NAME);

    private Measurements() {
    }

    /** Returns the metrics of each task, by metric name. */
    static Map<ConnectorTaskId, Map<String, Object>> ofTasks(Metrics metrics) {
        return ofTasks(metrics, id -> true);
    }

    /** Returns the metrics of one task, by metric name; empty if the task has not started or has been removed. */
    static Map<String, Object> ofTask(Metrics metrics, ConnectorTaskId id) {
        return ofTasks(metrics, id::equals).getOrDefault(id, Map.of());
    }

    private static Map<ConnectorTaskId, Map<String, Object>> ofTasks(
        Metrics metrics, Predicate<ConnectorTaskId> filter) {
        Map<ConnectorTaskId, Map<String, Object>> all = new HashMap<>();
        for (KafkaMetric metric : metrics.metrics().values()) {
            MetricName name = metric.metricName();
            if (TASK_GROUPS.contains(name.group())) {
                Map<String, String> tags = name.tags();
                ConnectorTaskId id = new ConnectorTaskId(
                    tags.get(ConnectMetricsRegistry.CONNECTOR_TAG_NAME),
                    Integer.parseInt(tags.get(ConnectMetricsRegistry.TASK_TAG_NAME)));
                if (filter.test(id) && metric.metricValue() instanceof Number value) {
                    all.computeIfAbsent(id, task -> new HashMap<>()).put(name.name(), value);
                }
            }
        }
        return all;
    }

    /** Returns the metrics of this JVM: memory in bytes, times in milliseconds. Unavailable metrics are omitted. */
    static Map<String, Object> ofJvm() {
        Map<String, Object> all = new LinkedHashMap<>();
        all.put("heap", memory(ManagementFactory.getMemoryMXBean().getHeapMemoryUsage()));
        all.put("nonheap", memory(ManagementFactory.getMemoryMXBean().getNonHeapMemoryUsage()));
        all.put("threads", ManagementFactory.getThreadMXBean().getThreadCount());
        all.put("uptime_ms", ManagementFactory.getRuntimeMXBean().getUptime());
        Map<String, Object> collectors = new LinkedHashMap<>();
        for (GarbageCollectorMXBean collector : ManagementFactory.getGarbageCollectorMXBeans()) {
            collectors.put(
                collector.getName(),
                Map.of("count", collector.getCollectionCount(), "ms", collector.getCollectionTime()));
        }
        all.put("collectors", collectors);
        if (ManagementFactory.getOperatingSystemMXBean() instanceof UnixOperatingSystemMXBean system) {
            all.put("open_files", system.getOpenFileDescriptorCount());
            all.put("max_files", system.getMaxFileDescriptorCount());
            all.put("cpu_ms", system.getProcessCpuTime() / 1_000_000);
        }
        return all;
    }

    private static Map<String, Object> memory(MemoryUsage usage) {
        Map<String, Object> all = new LinkedHashMap<>();
        all.put("used", usage.getUsed());
        all.put("committed", usage.getCommitted());
        if (usage.getMax() >= 0) {
            all.put("max", usage.getMax());
        }
        return all;
    }
}
