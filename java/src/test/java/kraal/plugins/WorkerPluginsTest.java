package kraal.plugins;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.runtime.ConnectorConfig;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.StringConverter;
import org.junit.jupiter.api.Test;

/** Tests for the converters of source and sink tasks. */
final class WorkerPluginsTest {
    private static final String VALUE = "value.converter";
    private final WorkerPlugins plugins = new WorkerPlugins(Map.of("plugin.path", "", "plugin.discovery", "service_load"));

    @Test
    void sourceTasksUseTheDirectJsonConverter() {
        Converter converter = plugins.startSource(
            () -> newConverter(JsonConverter.class, Map.of("value.converter.schemas.enable", "false")));
        assertEquals(DirectJsonConverter.class, converter.getClass());
        assertEquals("5", new String(converter.fromConnectData("t", null, 5)));
    }

    @Test
    void convertersOfSinksAndOtherConvertersAreNotReplaced() {
        assertEquals(JsonConverter.class, newConverter(JsonConverter.class, Map.of()).getClass());
        assertEquals(StringConverter.class, plugins.startSource(() -> newConverter(StringConverter.class, Map.of())).getClass());
    }

    private Converter newConverter(Class<?> converter, Map<String, String> converterSettings) {
        Map<String, String> config = new HashMap<>(converterSettings);
        config.putAll(Map.of("name", "n", "connector.class", "none", VALUE, converter.getName()));
        return plugins.newConverter(new ConnectorConfig(plugins, config), VALUE, VALUE + ".plugin.version");
    }
}
