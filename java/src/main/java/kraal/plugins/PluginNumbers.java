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
 * The plugins' own metrics: those of KIP-877, and Debezium's MBeans. Metrics that are not numeric are omitted.
 *
 * <p>Plugin code computes them on a separate thread, so that a plugin that hangs only makes these metrics unavailable.
 */
final class PluginNumbers {
    private static final Logger LOG = LoggerFactory.getLogger(PluginNumbers.class);
    private static final String GROUP = "plugins"; // as in PluginMetricsImpl
    private static final String DEBEZIUM = "debezium.";
    private static final String MBEANS = DEBEZIUM + "*:type=connector-metrics,*";
    private static final Set<String> NUMBERS = Set.of(
        "long", "int", "double", "float", "boolean",
        "java.lang.Long", "java.lang.Integer", "java.lang.Double", "java.lang.Float", "java.lang.Boolean");
    private final ExecutorService thread = Executors.newSingleThreadExecutor(work -> {
        Thread made = new Thread(work, "kraal-plugin-metrics");
        made.setDaemon(true);
        return made;
    });
    private final int most;
    private Future<Map<String, Object>> underWay;
    private boolean late;
    private boolean toldMany;
    private volatile Object asked;

    /** The maximum number of values; further values are omitted. */
    PluginNumbers(int most) {
        this.most = most;
    }

    /**
     * Returns {@code plugins} and {@code debezium}, each by name: {@code help}, and {@code rows} of labels and value.
     * Returns null on a timeout, and until a computation that has timed out completes.
     */
    synchronized Map<String, Object> take(Metrics metrics, long waitMs) throws InterruptedException {
        if (underWay == null || underWay.isDone()) {
            underWay = thread.submit(() -> all(metrics));
            late = false;
        }
        try {
            return underWay.get(late ? 0 : waitMs, TimeUnit.MILLISECONDS);
        } catch (TimeoutException e) {
            if (!late) {
                late = true;
                LOG.warn("{} has not answered in {} ms; /metrics has no metrics of plugins until it does", asked, waitMs);
            }
        } catch (ExecutionException e) {
            LOG.warn("The metrics of plugins cannot be read", e.getCause());
        }
        return null;
    }

    private Map<String, Object> all(Metrics metrics) throws JMException {
        Families plugins = new Families(most);
        for (KafkaMetric metric : metrics.metrics().values()) {
            MetricName name = metric.metricName();
            if (GROUP.equals(name.group())) {
                asked = name;
                try {
                    plugins.add(name.name(), name.description(), name.tags(), metric.metricValue());
                } catch (Throwable e) { // thrown by a plugin
                    LOG.debug("The value of {} is unknown", name, e);
                }
            }
        }
        Families debezium = new Families(most - plugins.rows);
        MBeanServer server = ManagementFactory.getPlatformMBeanServer();
        for (ObjectName bean : server.queryNames(new ObjectName(MBEANS), null)) {
            asked = bean;
            try {
                read(server, bean, debezium);
            } catch (Throwable e) { // thrown by a plugin
                LOG.debug("{} cannot be read", bean, e);
            }
        }
        if (!toldMany && plugins.leftOut + debezium.leftOut > 0) {
            toldMany = true;
            LOG.warn("Plugins have more than {} values; /metrics lacks {}", most, plugins.leftOut + debezium.leftOut);
        }
        return Map.of("plugins", plugins.byName, "debezium", debezium.byName);
    }

    private static void read(MBeanServer server, ObjectName bean, Families into) throws JMException {
        List<String> names = new ArrayList<>();
        for (MBeanAttributeInfo each : server.getMBeanInfo(bean).getAttributes()) {
            if (each.isReadable() && NUMBERS.contains(each.getType())) {
                names.add(each.getName());
            }
        }
        Map<String, String> labels = new LinkedHashMap<>();
        labels.put("plugin", bean.getDomain().substring(DEBEZIUM.length()));
        new TreeMap<>(bean.getKeyPropertyList()).forEach((key, text) -> {
            if (!"type".equals(key)) {
                labels.put("server".equals(key) ? "name" : key, text.startsWith("\"") ? ObjectName.unquote(text) : text);
            }
        });
        for (Attribute each : server.getAttributes(bean, names.toArray(new String[0])).asList()) {
            into.add(each.getName(), "Debezium's " + each.getName() + ".", labels, each.getValue());
        }
    }

    /** Values by metric name. */
    private static final class Families {
        final Map<String, Map<String, Object>> byName = new TreeMap<>();
        private final int most;
        private int rows;
        private int leftOut;

        Families(int most) {
            this.most = most;
        }

        void add(String name, String help, Map<String, String> labels, Object value) {
            Number number = value instanceof Boolean yes ? (Integer) (yes ? 1 : 0) : plain(value);
            if (number == null) {
                return;
            }
            if (rows == most) {
                leftOut++;
                return;
            }
            rows++;
            Map<String, Object> family = byName.computeIfAbsent(
                name, each -> Map.of("help", help == null ? "" : help, "rows", new ArrayList<>()));
            @SuppressWarnings("unchecked")
            List<Object> found = (List<Object>) family.get("rows");
            found.add(List.of(labels, number));
        }

        /** Converts a value to a number of a JDK class, or null. Classes of plugins run their own code here. */
        private static Number plain(Object value) {
            if (value instanceof Integer || value instanceof Long || value instanceof Double || value instanceof Float) {
                return (Number) value;
            }
            return value instanceof Number number ? (Number) number.doubleValue() : null;
        }
    }
}
