package kraal.plugins;

import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import javax.management.Attribute;
import javax.management.JMException;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.Metrics;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The plugins' own metrics: metrics registered through KIP-877, and Debezium's MBeans. A boolean is 0 or 1; other values
 * that are not numeric are omitted.
 *
 * <p>Plugin code computes the values on a separate thread, so a hung plugin makes only these metrics unavailable.
 */
final class PluginNumbers {
    private static final Logger LOG = LoggerFactory.getLogger(PluginNumbers.class);
    private static final String GROUP = "plugins"; // as in PluginMetricsImpl
    private static final String DEBEZIUM = "debezium.";
    private static final String MBEANS = DEBEZIUM + "*:type=connector-metrics,*";
    private static final Set<String> NUMERIC_TYPES = Set.of(
        "long", "int", "double", "float", "boolean",
        "java.lang.Long", "java.lang.Integer", "java.lang.Double", "java.lang.Float", "java.lang.Boolean");
    private final ExecutorService thread = Executors.newSingleThreadExecutor(work -> {
        Thread reader = new Thread(work, "kraal-plugin-metrics");
        reader.setDaemon(true);
        return reader;
    });
    private final int maxValues;
    private Future<Map<String, Object>> pending;
    private boolean isLate;
    private boolean hasWarned;
    private volatile Object currentMetric;

    /** {@code maxValues} is the maximum number of values; further values are omitted. */
    PluginNumbers(int maxValues) {
        this.maxValues = maxValues;
    }

    /**
     * Returns a map with the keys {@code plugins} and {@code debezium}. Each value maps a metric name to its
     * {@code help} text and its {@code rows}; a row consists of the labels and the value.
     *
     * <p>Returns null if the computation fails or times out. After a timeout, all calls return null until that
     * computation completes.
     */
    synchronized Map<String, Object> take(Metrics metrics, long waitMs) throws InterruptedException {
        if (pending == null || pending.isDone()) {
            pending = thread.submit(() -> readAll(metrics));
            isLate = false;
        }
        try {
            return pending.get(isLate ? 0 : waitMs, TimeUnit.MILLISECONDS);
        } catch (TimeoutException e) {
            if (!isLate) {
                isLate = true;
                LOG.warn("{} did not return within {} ms; /metrics omits plugin metrics until it does", currentMetric, waitMs);
            }
        } catch (ExecutionException e) {
            LOG.warn("Failed to read the metrics of plugins", e.getCause());
        }
        return null;
    }

    private Map<String, Object> readAll(Metrics metrics) throws JMException {
        Families plugins = new Families(maxValues);
        for (KafkaMetric metric : metrics.metrics().values()) {
            MetricName name = metric.metricName();
            if (GROUP.equals(name.group())) {
                currentMetric = name;
                try {
                    plugins.add(name.name(), name.description(), name.tags(), metric.metricValue());
                } catch (Throwable e) { // thrown by a plugin
                    LOG.debug("Failed to read the value of {}", name, e);
                }
            }
        }
        Families debezium = new Families(maxValues - plugins.rowCount);
        MBeanServer server = ManagementFactory.getPlatformMBeanServer();
        for (ObjectName bean : server.queryNames(new ObjectName(MBEANS), null)) {
            currentMetric = bean;
            try {
                read(server, bean, debezium);
            } catch (Throwable e) { // thrown by a plugin
                LOG.debug("Failed to read {}", bean, e);
            }
        }
        if (!hasWarned && plugins.omittedCount + debezium.omittedCount > 0) {
            hasWarned = true;
            LOG.warn(
                "Plugins have more than {} metric values; /metrics omits {} of them",
                maxValues, plugins.omittedCount + debezium.omittedCount);
        }
        return Map.of("plugins", plugins.byName, "debezium", debezium.byName);
    }

    private static void read(MBeanServer server, ObjectName bean, Families into) throws JMException {
        List<String> names = new ArrayList<>();
        for (MBeanAttributeInfo attribute : server.getMBeanInfo(bean).getAttributes()) {
            if (attribute.isReadable() && NUMERIC_TYPES.contains(attribute.getType())) {
                names.add(attribute.getName());
            }
        }
        Map<String, String> labels = new LinkedHashMap<>();
        labels.put("plugin", bean.getDomain().substring(DEBEZIUM.length()));
        new TreeMap<>(bean.getKeyPropertyList()).forEach((key, text) -> {
            if (!"type".equals(key)) {
                labels.put("server".equals(key) ? "name" : key, text.startsWith("\"") ? ObjectName.unquote(text) : text);
            }
        });
        for (Attribute attribute : server.getAttributes(bean, names.toArray(new String[0])).asList()) {
            into.add(attribute.getName(), "Debezium's " + attribute.getName() + ".", labels, attribute.getValue());
        }
    }

    /** Values by metric name. */
    private static final class Families {
        final Map<String, Map<String, Object>> byName = new TreeMap<>();
        private final int maxValues;
        private int rowCount;
        private int omittedCount;

        Families(int maxValues) {
            this.maxValues = maxValues;
        }

        void add(String name, String help, Map<String, String> labels, Object value) {
            Number number = value instanceof Boolean flag ? (Integer) (flag ? 1 : 0) : toJdkNumber(value);
            if (number == null) {
                return;
            }
            if (rowCount == maxValues) {
                omittedCount++;
                return;
            }
            rowCount++;
            Map<String, Object> family = byName.computeIfAbsent(
                name, absent -> Map.of("help", help == null ? "" : help, "rows", new ArrayList<>()));
            @SuppressWarnings("unchecked")
            List<Object> familyRows = (List<Object>) family.get("rows");
            familyRows.add(List.of(labels, number));
        }

        /** Converts a number to a JDK class; returns null for other values. May run plugin code. */
        private static Number toJdkNumber(Object value) {
            if (value instanceof Integer || value instanceof Long || value instanceof Double || value instanceof Float) {
                return (Number) value;
            }
            return value instanceof Number number ? (Number) number.doubleValue() : null;
        }
    }
}
