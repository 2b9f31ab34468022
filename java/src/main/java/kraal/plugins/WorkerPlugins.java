package kraal.plugins;

import java.util.Map;
import java.util.Set;
import java.util.SortedSet;
import java.util.function.Supplier;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.config.provider.ConfigProvider;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.runtime.isolation.PluginDesc;
import org.apache.kafka.connect.runtime.isolation.PluginDiscoveryMode;
import org.apache.kafka.connect.runtime.isolation.PluginScanResult;
import org.apache.kafka.connect.runtime.isolation.PluginSource;
import org.apache.kafka.connect.runtime.isolation.Plugins;
import org.apache.kafka.connect.storage.Converter;

/**
 * Kafka's {@link Plugins}, except that source tasks get a {@link DirectJsonConverter} for Kafka's JsonConverter.
 *
 * <p>A JsonConverter in {@code plugin.path} is another class, and stays. So do those of sinks: dead letters name their
 * converter's class.
 */
final class WorkerPlugins extends Plugins {
    private PluginScanResult scanned; // set by the constructor of the superclass: so it has no initial value here
    private final ThreadLocal<Boolean> startsSource = ThreadLocal.withInitial(() -> false);

    WorkerPlugins(Map<String, String> properties) {
        super(properties);
    }

    @Override
    public PluginScanResult initLoaders(Set<PluginSource> sources, PluginDiscoveryMode mode) {
        scanned = super.initLoaders(sources, mode);
        return scanned;
    }

    /** Returns all config providers, Kafka's own too; the superclass has the same of other kinds. */
    SortedSet<PluginDesc<ConfigProvider>> configProviders() {
        return scanned.configProviders();
    }

    /** Calls what starts a source task, on this thread; the converters that it makes are the task's. */
    <T> T startSource(Supplier<T> start) {
        startsSource.set(true);
        try {
            return start.get();
        } finally {
            startsSource.remove();
        }
    }

    @Override
    public Converter newConverter(AbstractConfig config, String classProperty, ClassLoaderUsage usage) {
        return direct(super.newConverter(config, classProperty, usage));
    }

    @Override
    public Converter newConverter(AbstractConfig config, String classProperty, String versionProperty) {
        return direct(super.newConverter(config, classProperty, versionProperty));
    }

    private Converter direct(Converter made) {
        if (!startsSource.get() || made == null || made.getClass() != JsonConverter.class) {
            return made;
        }
        try {
            return new DirectJsonConverter((JsonConverter) made);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException("Kafka's JsonConverter is not the one that this was written for", e);
        }
    }
}
