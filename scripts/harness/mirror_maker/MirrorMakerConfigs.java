import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import java.io.FileReader;
import java.lang.reflect.Field;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.connect.mirror.MirrorCheckpointConnector;
import org.apache.kafka.connect.mirror.MirrorHeartbeatConnector;
import org.apache.kafka.connect.mirror.MirrorMakerConfig;
import org.apache.kafka.connect.mirror.MirrorSourceConnector;
import org.apache.kafka.connect.mirror.SourceAndTarget;

/** Prints the configs that MirrorMaker derives from a properties file, for the worker and the connectors of each flow. */
public class MirrorMakerConfigs {
    private static final String PACKAGE = "org.apache.kafka.connect.mirror.";

    private static Set<String> names(String type, String fieldName) throws Exception {
        Field field = Class.forName(PACKAGE + type).getDeclaredField(fieldName);
        field.setAccessible(true);
        return new TreeSet<>(((ConfigDef) field.get(null)).names());
    }

    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        try (FileReader file = new FileReader(args[0])) {
            properties.load(file);
        }
        MirrorMakerConfig config = new MirrorMakerConfig(Utils.propsToStringMap(properties));
        Map<String, Object> flows = new TreeMap<>();
        for (SourceAndTarget flow : config.clusterPairs()) {
            Map<String, Object> connectors = new TreeMap<>();
            for (Class<?> type : List.of(
                    MirrorSourceConnector.class, MirrorHeartbeatConnector.class, MirrorCheckpointConnector.class)) {
                connectors.put(type.getSimpleName(), new TreeMap<>(config.connectorBaseConfig(flow, type)));
            }
            flows.put(flow.toString(),
                Map.of("worker", new TreeMap<>(config.workerConfig(flow)), "connectors", connectors));
        }
        Set<String> connectorKeys = names("MirrorSourceConfig", "CONNECTOR_CONFIG_DEF");
        connectorKeys.addAll(names("MirrorCheckpointConfig", "CONNECTOR_CONFIG_DEF"));
        connectorKeys.addAll(names("MirrorHeartbeatConfig", "CONNECTOR_CONFIG_DEF"));
        Map<String, Object> result = new TreeMap<>(Map.of(
            "client_keys", names("MirrorClientConfig", "CLIENT_CONFIG_DEF"),
            "connector_keys", connectorKeys,
            "flows", flows));
        ObjectMapper mapper = new ObjectMapper().configure(SerializationFeature.ORDER_MAP_ENTRIES_BY_KEYS, true);
        System.out.println(mapper.writeValueAsString(result));
    }
}
