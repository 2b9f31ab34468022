package kraal.plugins.chains;

import java.util.Map;
import kraal.plugins.Json;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.runtime.ConnectMetrics;
import org.apache.kafka.connect.runtime.isolation.Plugins;
import org.apache.kafka.connect.runtime.standalone.StandaloneConfig;
import org.apache.kafka.connect.util.ConnectorTaskId;

/**
 * Serves one chain (number 1) to tests in Python, without brokers.
 *
 * <p>Prints the server's address, and exits at the end of standard input.
 */
public final class ChainProcess {
    private ChainProcess() {
    }

    /** The arguments are {@code plugin.path}, the chain's config, and {@code source} or {@code sink}. */
    public static void main(String[] args) throws Exception {
        ChainServer server = new ChainServer();
        String json = "org.apache.kafka.connect.json.JsonConverter";
        Map<String, String> worker = Map.of(
            "bootstrap.servers", "localhost:1", "key.converter", json, "value.converter", json,
            "offset.storage.file.filename", "none");
        ConnectMetrics metrics = new ConnectMetrics("tests", new StandaloneConfig(worker), Time.SYSTEM, "tests");
        Plugins plugins = new Plugins(Map.of("plugin.path", args[0], "plugin.discovery", "service_load"));
        Chain<?, ?> chain = Chain.of(args[2], plugins, metrics, new ConnectorTaskId("c", 3), Json.strings(args[1]));
        System.out.println(Json.text(server.add(1, chain)));
        while (System.in.read() >= 0) {
            // the stream ends with the test
        }
        server.remove(1);
        server.close();
        System.exit(0);
    }
}
