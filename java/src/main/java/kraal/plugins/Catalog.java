package kraal.plugins;

import java.lang.reflect.InvocationTargetException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.common.config.Config;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Connector;
import org.apache.kafka.connect.runtime.AbstractHerder;
import org.apache.kafka.connect.runtime.isolation.LoaderSwap;
import org.apache.kafka.connect.runtime.isolation.PluginDesc;
import org.apache.kafka.connect.runtime.isolation.PluginType;
import org.apache.kafka.connect.runtime.isolation.PluginUtils;
import org.apache.kafka.connect.runtime.rest.entities.ConfigInfo;
import org.apache.kafka.connect.source.ExactlyOnceSupport;
import org.apache.kafka.connect.source.ConnectorTransactionBoundaries;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.common.TopicPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The plugins in {@code plugin.path}: their descriptions, config keys and validation. */
final class Catalog {
    private static final Logger LOG = LoggerFactory.getLogger(Catalog.class);
    private static final String CLASS_PATH = "classpath";
    private static final long DESCRIPTION_TIMEOUT_S = 10;
    private final WorkerPlugins plugins;

    Catalog(WorkerPlugins plugins) {
        this.plugins = plugins;
    }

    /** Describes every plugin except Kafka's own on the class path; see {@code catalog.py} for the format. */
    List<Map<String, Object>> describe() {
        List<Map<String, Object>> descriptions = new ArrayList<>();
        all().forEach(plugin -> descriptions.add(describe(plugin)));
        return descriptions;
    }

    /** Returns all plugins except those on the class path and copies of Kafka's own providers and policies. */
    private List<PluginDesc<?>> all() {
        List<Collection<? extends PluginDesc<?>>> kinds = List.of(
            plugins.sinkConnectors(), plugins.sourceConnectors(), plugins.transformations(), plugins.predicates(),
            plugins.converters(), plugins.headerConverters());
        List<PluginDesc<?>> all = new ArrayList<>();
        for (Collection<? extends PluginDesc<?>> kind : kinds) {
            for (PluginDesc<?> plugin : kind) {
                if (!CLASS_PATH.equals(plugin.location())) {
                    all.add(plugin);
                }
            }
        }
        all.addAll(services());
        return all;
    }

    /**
     * Returns the config providers and override policies, without Kafka's own (those on the class path) and copies of
     * them, because Kraal implements them.
     */
    private List<PluginDesc<?>> services() {
        List<PluginDesc<?>> services = new ArrayList<>(plugins.configProviders());
        services.addAll(plugins.connectorClientConfigPolicies());
        Set<String> onClassPath = new HashSet<>();
        services.stream().filter(plugin -> CLASS_PATH.equals(plugin.location()))
            .forEach(plugin -> onClassPath.add(plugin.className()));
        services.removeIf(plugin -> onClassPath.contains(plugin.className()));
        return services;
    }

    private Map<String, Object> describe(PluginDesc<?> plugin) {
        Map<String, Object> description = new LinkedHashMap<>();
        description.put("class", plugin.className());
        description.put("kind", plugin.typeName());
        description.put("version", plugin.version());
        description.put("location", plugin.location());
        FutureTask<Map<String, Object>> details = new FutureTask<>(() -> keysAndTask(plugin));
        Thread thread = new Thread(details, "describe-" + plugin.className());
        thread.setDaemon(true); // the thread is abandoned if the plugin does not return
        thread.start();
        try {
            description.putAll(details.get(DESCRIPTION_TIMEOUT_S, TimeUnit.SECONDS));
        } catch (Exception e) {
            Throwable cause = e instanceof ExecutionException && e.getCause() != null ? e.getCause() : e;
            LOG.warn("The plugin {} cannot be described; it is listed without config keys", plugin.className(), cause);
            description.put("keys", List.of());
            description.put("error", e instanceof TimeoutException
                ? "it has not returned its config keys within " + DESCRIPTION_TIMEOUT_S + " s"
                : String.valueOf(cause));
            description.put("lasts", cause instanceof LinkageError); // a missing class is a permanent error
        }
        return description;
    }

    private Map<String, Object> keysAndTask(PluginDesc<?> plugin) throws Exception {
        Map<String, Object> details = new HashMap<>();
        if (plugin.type() == PluginType.CONFIGPROVIDER
            || plugin.type() == PluginType.CONNECTOR_CLIENT_CONFIG_OVERRIDE_POLICY) {
            details.put("keys", List.of());
            return details;
        }
        try (LoaderSwap swap = plugins.withClassLoader(plugin.loader())) {
            Object instance = plugin.pluginClass().getDeclaredConstructor().newInstance();
            ConfigDef keys = (ConfigDef) instance.getClass().getMethod("config").invoke(instance);
            details.put("keys", keys == null ? List.of() : keys(keys));
            if (instance instanceof Connector connector) {
                details.put("task_class", connector.taskClass().getName());
            }
        } catch (NoSuchMethodException e) {
            details.put("keys", List.of());
        } catch (InvocationTargetException e) {
            throw e.getCause() instanceof Exception cause ? cause : e;
        }
        return details;
    }

    private static List<Object> keys(ConfigDef keys) {
        List<Object> all = new ArrayList<>();
        for (ConfigDef.ConfigKey key : keys.configKeys().values()) {
            all.add(AbstractHerder.convertConfigKey(key));
        }
        return all;
    }

    /** Returns the result of a connector's {@code validate} as {@code ConfigValueInfo} objects, possibly not for all keys. */
    List<Object> validate(String className, String version, Map<String, String> config) throws Exception {
        return callConnector(className, version, connector -> {
            Config result = connector.validate(config);
            if (result == null) {
                throw new IllegalStateException(String.format(
                    "%s.validate() must return a Config that is not null.", connector.getClass().getName()));
            }
            ConfigDef keys = connector.config();
            List<Object> values = new ArrayList<>();
            AbstractHerder.generateResult(className, keys.configKeys(), result.configValues(), keys.groups())
                .configs().stream().map(ConfigInfo::configValue).filter(Objects::nonNull).forEach(values::add);
            return values;
        });
    }

    /** Returns {@code SUPPORTED}, {@code UNSUPPORTED}, or null if the connector returns null. */
    String exactlyOnceSupport(String className, String version, Map<String, String> config) throws Exception {
        return callConnector(className, version, connector -> {
            ExactlyOnceSupport support = ((SourceConnector) connector).exactlyOnceSupport(config);
            return support == null ? null : support.name();
        });
    }

    /** Returns {@code SUPPORTED}, {@code UNSUPPORTED}, or null if the connector returns null. */
    String transactionBoundaries(String className, String version, Map<String, String> config) throws Exception {
        return callConnector(className, version, connector -> {
            ConnectorTransactionBoundaries boundaries =
                ((SourceConnector) connector).canDefineTransactionBoundaries(config);
            return boundaries == null ? null : boundaries.name();
        });
    }

    /** Calls {@code SourceConnector.alterOffsets}. */
    boolean alterOffsets(
        String className, String version, Map<String, String> config, List<List<Map<String, Object>>> pairs)
        throws Exception {
        Map<Map<String, ?>, Map<String, ?>> offsets = new LinkedHashMap<>();
        pairs.forEach(pair -> offsets.put(pair.get(0), pair.get(1)));
        return callConnector(className, version, connector -> ((SourceConnector) connector).alterOffsets(config, offsets));
    }

    /** Calls {@code SinkConnector.alterOffsets}; the keys of each pair are {@code topic}, {@code partition}, {@code offset}. */
    boolean alterSinkOffsets(
        String className, String version, Map<String, String> config, List<List<Map<String, Object>>> pairs)
        throws Exception {
        Map<TopicPartition, Long> offsets = new LinkedHashMap<>();
        for (List<Map<String, Object>> pair : pairs) {
            Map<String, Object> partitionKey = pair.get(0);
            int partition = ((Number) partitionKey.get("partition")).intValue();
            offsets.put(
                new TopicPartition((String) partitionKey.get("topic"), partition),
                pair.get(1) == null ? null : (Long) pair.get(1).get("offset"));
        }
        return callConnector(className, version, connector -> ((SinkConnector) connector).alterOffsets(config, offsets));
    }

    private <T> T callConnector(String className, String version, ConnectorCall<T> call) throws Exception {
        var range = PluginUtils.connectorVersionRequirement(version);
        try (LoaderSwap swap = plugins.withClassLoader(plugins.connectorLoader(className, range))) {
            return call.apply(plugins.newConnector(className, range));
        }
    }

    /** A call of a method of a connector that is not started. */
    private interface ConnectorCall<T> {
        T apply(Connector connector) throws Exception;
    }
}
