package kraal.plugins;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.config.ConfigData;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.provider.ConfigProvider;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.connect.runtime.isolation.LoaderSwap;
import org.apache.kafka.connect.runtime.isolation.Plugins;

/**
 * The config providers in {@code plugin.path} that a worker uses. Thread-safe.
 *
 * <p>Each provider is created and configured at its first use, including in a process that replaces an exited one.
 */
final class ConfigProviders {
    private static final String PREFIX = "provider";
    private final Map<Long, ConfigProvider> providers = new ConcurrentHashMap<>();
    private final Plugins plugins;

    ConfigProviders(Plugins plugins) {
        this.plugins = plugins;
    }

    /**
     * Returns a map with {@code data} (the values of the keys that exist) and {@code ttl} (in milliseconds, or null).
     * {@code number} identifies the provider within the worker.
     */
    Map<String, Object> values(
        long number, String className, Map<String, String> params, String path, Set<String> keys) {
        ConfigProvider provider = providers.computeIfAbsent(number, absent -> createProvider(className, params));
        try (LoaderSwap swap = plugins.withClassLoader(provider.getClass().getClassLoader())) {
            ConfigData configData = provider.get(path, keys);
            Map<String, String> data = new HashMap<>();
            for (String key : keys) {
                if (configData.data().get(key) != null) {
                    data.put(key, configData.data().get(key));
                }
            }
            Map<String, Object> result = new HashMap<>();
            result.put("data", data);
            result.put("ttl", configData.ttl());
            return result;
        }
    }

    private ConfigProvider createProvider(String className, Map<String, String> params) {
        Map<String, String> settings = new HashMap<>();
        settings.put(PREFIX + ".class", className);
        params.forEach((key, text) -> settings.put(PREFIX + ".param." + key, text));
        return plugins.newConfigProvider(
            new AbstractConfig(new ConfigDef(), settings, false), PREFIX, Plugins.ClassLoaderUsage.PLUGINS);
    }

    /** Closes all providers, logging their errors. */
    void close() {
        providers.values().forEach(provider -> {
            try (LoaderSwap swap = plugins.withClassLoader(provider.getClass().getClassLoader())) {
                Utils.closeQuietly(provider, "config provider " + provider.getClass().getName());
            }
        });
    }
}
