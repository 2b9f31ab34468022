package kraal.testing;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigValue;
import org.apache.kafka.connect.connector.policy.ConnectorClientConfigOverridePolicy;
import org.apache.kafka.connect.connector.policy.ConnectorClientConfigRequest;
import org.apache.kafka.connect.errors.ConnectException;

/** Rejects some client settings, with errors that contain the whole request. */
public final class TellingConnectorClientConfigOverridePolicy implements ConnectorClientConfigOverridePolicy {
    private static final String FORBIDDEN = "linger.ms";
    private static final String FAILING = "fail";

    @Override
    public List<ConfigValue> validate(ConnectorClientConfigRequest request) {
        List<ConfigValue> values = new ArrayList<>();
        request.clientProps().forEach((key, setting) -> {
            if (key.equals(FAILING)) {
                throw new ConnectException("The policy fails");
            }
            ConfigValue value = new ConfigValue(key, setting, new ArrayList<>(), new ArrayList<>());
            if (key.equals(FORBIDDEN) || key.startsWith("forbidden")) {
                value.addErrorMessage(String.format(
                    "%s=%s (%s) is forbidden to the %s of the %s %s, %s", key, setting,
                    setting == null ? null : setting.getClass().getName(), request.clientType(),
                    request.connectorType(), request.connectorName(), request.connectorClass().getName()));
                value.addErrorMessage("Another reason.");
            }
            values.add(value);
        });
        return values;
    }

    @Override
    public void configure(Map<String, ?> configs) {
        // no settings
    }

    @Override
    public void close() {
        // no resources
    }
}
