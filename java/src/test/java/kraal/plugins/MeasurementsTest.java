package kraal.plugins;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.management.ManagementFactory;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import javax.management.ObjectName;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.metrics.Gauge;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.connect.util.ConnectorTaskId;
import org.junit.jupiter.api.Test;

/** Tests for the metrics of tasks, plugins and the process. */
final class MeasurementsTest {
    private static final long TIMEOUT_MS = 10_000;
    private final Metrics metrics = new Metrics();
    private final PluginMetricsImpl taskPluginMetrics = new PluginMetricsImpl(metrics, ordered("connector", "c", "task", "0"));
    private final PluginNumbers numbers = new PluginNumbers(100);

    /** An interface like those of Debezium's MBeans. */
    public interface StreamingMXBean {
        long getMilliSecondsBehindSource();

        boolean isConnected();

        String getLastEvent();
    }

    /** An MBean like those of Debezium. */
    public static final class Streaming implements StreamingMXBean {
        @Override
        public long getMilliSecondsBehindSource() {
            return 42;
        }

        @Override
        public boolean isConnected() {
            return true;
        }

        @Override
        public String getLastEvent() {
            throw new AssertionError("text attributes must not be read");
        }
    }

    @Test
    void taskMetricsIncludeOnlyTaskGroups() {
        add("task-error-metrics", "total-retries", 3.0);
        add("source-task-metrics", "source-record-poll-total", 5.0);
        add("connector-task-metrics", "status", "running");
        add("connect-worker-metrics", "other", 1.0);
        Map<String, Object> expected = Map.of("total-retries", 3.0, "source-record-poll-total", 5.0);
        ConnectorTaskId id = new ConnectorTaskId("c", 0);
        assertEquals(Map.of(id, expected), Measurements.ofTasks(metrics));
        assertEquals(expected, Measurements.ofTask(metrics, id));
        assertEquals(Map.of(), Measurements.ofTask(metrics, new ConnectorTaskId("c", 1)));
    }

    @Test
    void pluginMetricsHaveTagsAndTextIsOmitted() throws InterruptedException {
        addPluginMetric("size", Map.of("place", "x"), (config, now) -> 7);
        addPluginMetric("open", Map.of(), (config, now) -> true);
        addPluginMetric("text", Map.of(), (config, now) -> "words");
        addPluginMetric("bad", Map.of(), (config, now) -> {
            throw new IllegalStateException("unknown");
        });
        Map<?, ?> result = (Map<?, ?>) numbers.take(metrics, TIMEOUT_MS).get("plugins");
        assertEquals(Map.of(
            "size", Map.of("help", "Its size.", "rows", List.of(List.of(ordered("connector", "c", "task", "0", "place", "x"), 7))),
            "open", Map.of("help", "Its open.", "rows", List.of(List.of(ordered("connector", "c", "task", "0"), 1)))), result);
    }

    /** A number whose class belongs to a plugin. */
    private static final class PluginNumber extends Number {
        private final double value;

        PluginNumber(double value) {
            this.value = value;
        }

        @Override
        public int intValue() {
            throw new AssertionError("only doubleValue must be called");
        }

        @Override
        public long longValue() {
            throw new AssertionError("only doubleValue must be called");
        }

        @Override
        public float floatValue() {
            throw new AssertionError("only doubleValue must be called");
        }

        @Override
        public double doubleValue() {
            if (value < 0) {
                throw new AssertionError("a plugin's error");
            }
            return value;
        }

        @Override
        public String toString() {
            throw new AssertionError("only doubleValue must be called");
        }
    }

    @Test
    void errorsOfPluginNumbersAffectOnlyTheirMetrics() throws InterruptedException {
        addPluginMetric("own", Map.of(), (config, now) -> new PluginNumber(1.5));
        addPluginMetric("broken", Map.of(), (config, now) -> new PluginNumber(-1));
        addPluginMetric("size", Map.of(), (config, now) -> 7);
        Map<String, Object> result = numbers.take(metrics, TIMEOUT_MS);
        assertEquals(Set.of("own", "size"), ((Map<?, ?>) result.get("plugins")).keySet());
        assertTrue(Json.text(result).contains("[{\"connector\":\"c\",\"task\":\"0\"},1.5]"), Json.text(result));
    }

    @Test
    void valuesAreLimitedToTheMaximum() throws InterruptedException {
        for (int i = 0; i < 5; i++) {
            addPluginMetric("size", Map.of("place", "" + i), (config, now) -> 7);
        }
        Map<?, ?> result = (Map<?, ?>) new PluginNumbers(3).take(metrics, TIMEOUT_MS).get("plugins");
        assertEquals(3, ((List<?>) ((Map<?, ?>) result.get("size")).get("rows")).size());
    }

    @Test
    void pluginMetricsAreUnavailableWhileAPluginHangs() throws InterruptedException {
        CountDownLatch released = new CountDownLatch(1);
        addPluginMetric("slow", Map.of(), (config, now) -> {
            try {
                released.await();
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
            return 1;
        });
        assertNull(numbers.take(metrics, 1));
        assertNull(numbers.take(metrics, TIMEOUT_MS * 1000), "no further wait for a plugin that has timed out");
        released.countDown();
        Map<String, Object> result = null;
        for (long end = System.nanoTime() + TIMEOUT_MS * 1_000_000; result == null && System.nanoTime() < end; ) {
            result = numbers.take(metrics, 1);
        }
        assertTrue(((Map<?, ?>) result.get("plugins")).containsKey("slow"));
    }

    @Test
    void debeziumMetricsHaveLabelsFromTheirMBeanNames() throws Exception {
        ObjectName name = new ObjectName("debezium.postgres:type=connector-metrics,context=streaming,server=shop,task=0");
        ManagementFactory.getPlatformMBeanServer().registerMBean(new Streaming(), name);
        try {
            Map<?, ?> result = (Map<?, ?>) numbers.take(metrics, TIMEOUT_MS).get("debezium");
            assertEquals(Set.of("MilliSecondsBehindSource", "Connected"), result.keySet());
            Map<String, String> labels =
                ordered("plugin", "postgres", "context", "streaming", "name", "shop", "task", "0");
            assertEquals(List.of(List.of(labels, 42L)), ((Map<?, ?>) result.get("MilliSecondsBehindSource")).get("rows"));
            assertEquals(List.of(List.of(labels, 1)), ((Map<?, ?>) result.get("Connected")).get("rows"));
        } finally {
            ManagementFactory.getPlatformMBeanServer().unregisterMBean(name);
        }
    }

    @Test
    void processMetricsContainMemory() {
        Map<String, Object> result = Measurements.ofJvm();
        Map<?, ?> heap = (Map<?, ?>) result.get("heap");
        assertTrue((Long) heap.get("used") > 0);
        assertTrue((Long) heap.get("used") <= (Long) heap.get("max"));
        assertTrue((Integer) result.get("threads") > 0);
        assertFalse(((Map<?, ?>) result.get("collectors")).isEmpty());
    }

    @Test
    void connectorMetricsAreRemovedWhenKafkaClosesItsContext() {
        PluginMetricsImpl first = new PluginMetricsImpl(metrics, ordered("connector", "c"));
        RunningConnector connector = new RunningConnector("c", 1, new Events(), first);
        first.addMetric(size(first), (Gauge<Integer>) (config, now) -> 1);
        connector.detach();
        first.removeMetric(size(first)); // the connector's stop() may do the same
        first.addMetric(size(first), (Gauge<Integer>) (config, now) -> 1);
        connector.close();
        assertThrows(IllegalStateException.class, () -> size(first));
        PluginMetricsImpl second = new PluginMetricsImpl(metrics, ordered("connector", "c"));
        second.addMetric(size(second), (Gauge<Integer>) (config, now) -> 2);
        connector.close();
        assertEquals(2, metrics.metric(size(second)).metricValue());
    }

    private static MetricName size(PluginMetricsImpl pluginMetrics) {
        return pluginMetrics.metricName("size", "Its size.", new LinkedHashMap<>());
    }

    private void add(String group, String name, Object value) {
        metrics.addMetric(
            metrics.metricName(name, group, ordered("connector", "c", "task", "0")),
            (Gauge<Object>) (config, now) -> value);
    }

    private void addPluginMetric(String name, Map<String, String> tags, Gauge<Object> value) {
        taskPluginMetrics.addMetric(taskPluginMetrics.metricName(name, "Its " + name + ".", new LinkedHashMap<>(tags)), value);
    }

    private static LinkedHashMap<String, String> ordered(String... pairs) {
        LinkedHashMap<String, String> all = new LinkedHashMap<>();
        for (int i = 0; i < pairs.length; i += 2) {
            all.put(pairs[i], pairs[i + 1]);
        }
        return all;
    }
}
