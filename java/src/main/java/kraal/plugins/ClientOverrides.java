package kraal.plugins;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigValue;
import org.apache.kafka.connect.connector.Connector;
import org.apache.kafka.connect.connector.policy.ConnectorClientConfigOverridePolicy;
import org.apache.kafka.connect.connector.policy.ConnectorClientConfigRequest;
import org.apache.kafka.connect.connector.policy.ConnectorClientConfigRequest.ClientType;
import org.apache.kafka.connect.health.ConnectorType;
import org.apache.kafka.connect.runtime.AbstractHerder;
import org.apache.kafka.connect.runtime.isolation.LoaderSwap;
import org.apache.kafka.connect.runtime.isolation.PluginUtils;
import org.apache.kafka.connect.runtime.isolation.Plugins;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.source.SourceConnector;

/** Validates client settings with a policy in {@code plugin.path}. Source: AbstractHerder.validateClientOverrides. */
final class ClientOverrides {
    private ClientOverrides() {
    }

    /**
     * Validates the settings of one client of a connector; returns {@code ConfigValueInfo} objects. The keys of
     * {@code request} are {@code name}, {@code type} ({@code source} or {@code sink}), {@code class}, {@code version}
     * and {@code client}. A Python connector has no class; the policy receives the interface of its type.
     */
    static List<Object> validate(
        Plugins plugins, ConnectorClientConfigOverridePolicy policy, Map<String, String> request,
        Map<String, String> overrides) throws Exception {
        ConnectorType type = ConnectorType.valueOf(request.get("type").toUpperCase(Locale.ROOT));
        ClientType client = ClientType.valueOf(request.get("client").toUpperCase(Locale.ROOT));
        String className = request.get("class");
        if (className == null) {
            Class<? extends Connector> connectorInterface =
                type == ConnectorType.SOURCE ? SourceConnector.class : SinkConnector.class;
            return validate(policy, request.get("name"), type, connectorInterface, client, overrides);
        }
        var range = PluginUtils.connectorVersionRequirement(request.get("version"));
        try (LoaderSwap swap = plugins.withClassLoader(plugins.connectorLoader(className, range))) {
            return validate(
                policy, request.get("name"), type, plugins.connectorClass(className, range), client, overrides);
        }
    }

    private static List<Object> validate(
        ConnectorClientConfigOverridePolicy policy, String name, ConnectorType type,
        Class<? extends Connector> connector, ClientType client, Map<String, String> overrides) {
        Map<String, ConfigDef.ConfigKey> keys = keys(client).configKeys();
        Map<String, Object> parsedOverrides = new HashMap<>();
        overrides.forEach((key, text) -> parsedOverrides.put(
            key, keys.containsKey(key) ? ConfigDef.parseType(key, text, keys.get(key).type) : text));
        List<ConfigValue> results =
            policy.validate(new ConnectorClientConfigRequest(name, type, connector, parsedOverrides, client));
        List<Object> values = new ArrayList<>();
        for (ConfigValue value : results == null ? List.<ConfigValue>of() : results) {
            Map<String, ConfigDef.ConfigKey> keysOfValue = new HashMap<>(keys);
            keysOfValue.keySet().retainAll(List.of(value.name()));
            AbstractHerder.generateResult("", keysOfValue, List.of(value), List.of())
                .configs().forEach(info -> values.add(info.configValue()));
        }
        return values;
    }

    private static ConfigDef keys(ClientType client) {
        return switch (client) {
            case PRODUCER -> ProducerConfig.configDef();
            case CONSUMER -> ConsumerConfig.configDef();
            case ADMIN -> AdminClientConfig.configDef();
        };
    }
}
