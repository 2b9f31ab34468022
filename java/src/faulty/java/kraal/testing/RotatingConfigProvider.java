package kraal.testing;

import java.io.IOException;
import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.common.config.ConfigData;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.provider.ConfigProvider;

/**
 * Returns all keys of the properties file at {@code path}. The key {@code ttl.ms} of the file is the TTL of the values.
 * The provider's parameter {@code closed} names a file to which a line is appended when the provider is closed.
 */
public final class RotatingConfigProvider implements ConfigProvider {
    private Map<String, ?> params = Map.of();

    @Override
    public void configure(Map<String, ?> configs) {
        if (configs.containsKey("refuse")) {
            throw new ConfigException("The parameter refuse says: " + configs.get("refuse"));
        }
        params = configs;
    }

    @Override
    public ConfigData get(String path) {
        throw new UnsupportedOperationException("Connect never asks for all keys");
    }

    @Override
    public ConfigData get(String path, Set<String> keys) {
        Properties all = new Properties();
        try (Reader reader = Files.newBufferedReader(Path.of(path))) {
            all.load(reader);
        } catch (IOException e) {
            throw new ConfigException("The file " + path + " cannot be read");
        }
        Map<String, String> data = new HashMap<>();
        all.stringPropertyNames().forEach(key -> data.put(key, all.getProperty(key)));
        String ttl = all.getProperty("ttl.ms");
        return new ConfigData(data, ttl == null ? null : Long.valueOf(ttl));
    }

    @Override
    public void close() throws IOException {
        if (params.containsKey("closed")) {
            Files.writeString(
                Path.of(String.valueOf(params.get("closed"))), "closed\n",
                StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        }
    }
}
