package kraal.plugins;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import py4j.GatewayServer;
import sun.misc.Signal;

/**
 * The process of Java plugins: serves {@link PluginWorker} to the Python worker that started it, and ends with it.
 *
 * <p>The first line of standard input is a JSON object: {@code token}, the secret of the gateway, and {@code plugins},
 * the properties {@code plugin.path} and {@code plugin.discovery}; {@code scan}, the result of {@link PluginWorker#scan}
 * in an earlier process, or null; and {@code command}, the command line that a Java worker would have, or null: some
 * plugins look for the worker's file in it. The process prints a line with its port when it listens on the loopback
 * interface, and ends when standard input does. An argument only tells people which connector it runs.
 */
public final class PluginProcess {
    private static final String PORT = "kraal.plugins listens on port ";

    private PluginProcess() {
    }

    public static void main(String[] args) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Map<String, Object> given = Json.object(input.readLine());
        if (given.get("command") != null) {
            System.setProperty("sun.java.command", (String) given.get("command"));
        }
        Signal.handle(new Signal("TERM"), signal -> { }); // may reach all processes of a service; the worker ends this one
        PluginWorker worker = new PluginWorker(
            Json.strings(given.get("plugins")), Json.listOfStrings(given.get("scan")));
        GatewayServer server = new GatewayServer.GatewayServerBuilder(worker)
            .javaPort(0)
            .authToken((String) given.get("token"))
            .build();
        server.start();
        System.out.println(); // ends what a plugin has printed without an end of line
        System.out.println(PORT + server.getListeningPort());
        System.out.flush();
        while (input.readLine() != null) {
            // nothing more is sent; the end of the stream is the end of the Python worker
        }
        worker.close();
        ExitGuard.end();
    }
}
