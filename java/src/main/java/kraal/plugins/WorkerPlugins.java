package kraal.plugins;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SortedSet;
import java.util.TreeSet;
import java.util.function.Supplier;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.config.provider.ConfigProvider;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.runtime.isolation.PluginClassLoader;
import org.apache.kafka.connect.runtime.isolation.PluginDesc;
import org.apache.kafka.connect.runtime.isolation.PluginDiscoveryMode;
import org.apache.kafka.connect.runtime.isolation.PluginScanResult;
import org.apache.kafka.connect.runtime.isolation.PluginScanner;
import org.apache.kafka.connect.runtime.isolation.PluginSource;
import org.apache.kafka.connect.runtime.isolation.PluginType;
import org.apache.kafka.connect.runtime.isolation.Plugins;
import org.apache.kafka.connect.storage.Converter;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Kafka's {@link Plugins}, except that source tasks use a {@link DirectJsonConverter} instead of Kafka's JsonConverter.
 *
 * <p>A JsonConverter in {@code plugin.path} is a different class and is not replaced. Neither are the converters of sinks, because
 * dead letters contain the class name of the converter.
 */
class WorkerPlugins extends Plugins {
    private static final Logger LOG = LoggerFactory.getLogger(WorkerPlugins.class);
    private PluginScanResult scanned; // set by the superclass constructor, so it must not have an initializer
    private final ThreadLocal<Boolean> startsSource = ThreadLocal.withInitial(() -> false);

    WorkerPlugins(Map<String, String> properties) {
        super(properties);
    }

    /** Loads the plugins from an earlier scan of the same files; scans if there is none, or if loading fails. */
    static WorkerPlugins of(Map<String, String> properties, List<Map<String, String>> scan) {
        return scan == null ? new WorkerPlugins(properties) : new WorkerPlugins(properties) {
            @Override
            List<Map<String, String>> earlierScan() {
                return scan; // a captured variable is set before the superclass constructor runs
            }
        };
    }

    /** Returns an earlier scan, or null. Called by the constructor of the superclass. */
    List<Map<String, String>> earlierScan() {
        return null;
    }

    @Override
    public PluginScanResult initLoaders(Set<PluginSource> sources, PluginDiscoveryMode mode) {
        if (earlierScan() != null) {
            try {
                scanned = new KnownPlugins(earlierScan()).discoverPlugins(sources);
                delegatingLoader().installDiscoveredPlugins(scanned);
                return scanned;
            } catch (RuntimeException | LinkageError e) {
                LOG.warn("Scanning plugin.path again, because the plugins of the last scan cannot be loaded", e);
            }
        }
        scanned = super.initLoaders(sources, mode);
        return scanned;
    }

    /** Returns the scan for {@link #of} in a later process. */
    List<Map<String, String>> scan() {
        return toMaps(scanned);
    }

    /** Returns all config providers, including Kafka's own. */
    SortedSet<PluginDesc<ConfigProvider>> configProviders() {
        return scanned.configProviders();
    }

    /** Starts a source task on the current thread, replacing the JsonConverters that the start creates. */
    <T> T startSource(Supplier<T> start) {
        startsSource.set(true);
        try {
            return start.get();
        } finally {
            startsSource.remove();
        }
    }

    private static List<Map<String, String>> toMaps(PluginScanResult scan) {
        List<Map<String, String>> all = new ArrayList<>();
        scan.forEach(plugin -> all.add(Map.of(
            "class", plugin.className(), "type", plugin.type().name(), "version", plugin.version(),
            "location", plugin.location())));
        return all;
    }

    @Override
    public Converter newConverter(AbstractConfig config, String classProperty, ClassLoaderUsage usage) {
        return replaceJsonConverter(super.newConverter(config, classProperty, usage));
    }

    @Override
    public Converter newConverter(AbstractConfig config, String classProperty, String versionProperty) {
        return replaceJsonConverter(super.newConverter(config, classProperty, versionProperty));
    }

    private Converter replaceJsonConverter(Converter converter) {
        if (!startsSource.get() || converter == null || converter.getClass() != JsonConverter.class) {
            return converter;
        }
        try {
            return new DirectJsonConverter((JsonConverter) converter);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException("Unsupported version of Kafka's JsonConverter", e);
        }
    }

    /**
     * Restores an earlier scan of the same files by loading the classes by name.
     *
     * <p>Kafka's scanners read all manifests or classes, and instantiate each plugin to get its version.
     */
    private static final class KnownPlugins extends PluginScanner {
        private static final String CLASS_PATH = "classpath"; // as in PluginDesc
        private final List<Map<String, String>> plugins;

        /** {@code plugins} is the result of {@link #scan}. */
        KnownPlugins(List<Map<String, String>> plugins) {
            this.plugins = plugins;
        }

        /** Throws IllegalStateException if a plugin is missing from its location. */
        @Override
        public PluginScanResult discoverPlugins(Set<PluginSource> sources) {
            PluginScanResult result = super.discoverPlugins(sources);
            List<Map<String, String>> present = toMaps(result);
            if (present.size() != plugins.size()) {
                throw new IllegalStateException(present.size() + " of " + plugins.size() + " plugins are present");
            }
            return result;
        }

        @Override
        protected PluginScanResult scanPlugins(PluginSource source) {
            return new PluginScanResult(
                of(PluginType.SINK, source), of(PluginType.SOURCE, source), of(PluginType.CONVERTER, source),
                of(PluginType.HEADER_CONVERTER, source), of(PluginType.TRANSFORMATION, source),
                of(PluginType.PREDICATE, source), of(PluginType.CONFIGPROVIDER, source),
                of(PluginType.REST_EXTENSION, source), of(PluginType.CONNECTOR_CLIENT_CONFIG_OVERRIDE_POLICY, source));
        }

        @SuppressWarnings("unchecked")
        private <T> SortedSet<PluginDesc<T>> of(PluginType type, PluginSource source) {
            String location = source.loader() instanceof PluginClassLoader isolated ? isolated.location() : CLASS_PATH;
            SortedSet<PluginDesc<T>> all = new TreeSet<>();
            for (Map<String, String> plugin : plugins) {
                if (type.name().equals(plugin.get("type")) && location.equals(plugin.get("location"))) {
                    try {
                        Class<?> loaded = Class.forName(plugin.get("class"), false, source.loader());
                        all.add(pluginDesc(
                            (Class<? extends T>) loaded.asSubclass(type.superClass()), plugin.get("version"), type, source));
                    } catch (ClassNotFoundException | ClassCastException | LinkageError e) {
                        throw new IllegalStateException(plugin.get("class") + " cannot be loaded", e);
                    }
                }
            }
            return all;
        }
    }
}
