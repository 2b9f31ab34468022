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
 * <p>Each is created and configured at its first use, also in a process that replaces an exited one.
 */
final class ConfigProviders {
    private static final String PREFIX = "provider";
    private final Map<Long, ConfigProvider> made = new ConcurrentHashMap<>();
    private final Plugins plugins;

    ConfigProviders(Plugins plugins) {
        this.plugins = plugins;
    }

    /**
     * Returns {@code data}, the existing values of these keys, and {@code ttl}, in milliseconds or null.
     * {@code number} identifies the provider within the worker.
     */
    Map<String, Object> values(
        long number, String className, Map<String, String> params, String path, Set<String> keys) {
        ConfigProvider provider = made.computeIfAbsent(number, absent -> configured(className, params));
        try (LoaderSwap swap = plugins.withClassLoader(provider.getClass().getClassLoader())) {
            ConfigData found = provider.get(path, keys);
            Map<String, String> data = new HashMap<>();
            for (String key : keys) {
                if (found.data().get(key) != null) {
                    data.put(key, found.data().get(key));
                }
            }
            Map<String, Object> answer = new HashMap<>();
            answer.put("data", data);
            answer.put("ttl", found.ttl());
            return answer;
        }
    }

    private ConfigProvider configured(String className, Map<String, String> params) {
        Map<String, String> given = new HashMap<>();
        given.put(PREFIX + ".class", className);
        params.forEach((key, text) -> given.put(PREFIX + ".param." + key, text));
        return plugins.newConfigProvider(
            new AbstractConfig(new ConfigDef(), given, false), PREFIX, Plugins.ClassLoaderUsage.PLUGINS);
    }

    /** Closes all providers, logging their errors. */
    void close() {
        made.values().forEach(provider -> {
            try (LoaderSwap swap = plugins.withClassLoader(provider.getClass().getClassLoader())) {
                Utils.closeQuietly(provider, "config provider " + provider.getClass().getName());
            }
        });
    }
}
