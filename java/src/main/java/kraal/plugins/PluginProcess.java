package kraal.plugins;

import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.logging.Formatter;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogManager;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;
import py4j.GatewayServer;
import sun.misc.Signal;

/**
 * The process of Java plugins. It serves {@link PluginWorker} to the Python worker, and exits with the Python worker.
 *
 * <p>The first line of standard input is a JSON object with the keys {@code token} (the secret of the gateway),
 * {@code plugins} (the properties {@code plugin.path} and {@code plugin.discovery}), {@code scan} (the result of
 * {@link PluginWorker#scan} in an earlier process, or null) and {@code command} (null, or the command line of an
 * equivalent Java worker, because some plugins look up the worker's file there). The process prints a line with its port
 * when it listens on the loopback interface, and exits at the end of standard input. The argument, if any, only shows
 * the connector in process listings.
 */
public final class PluginProcess {
    private static final String PORT_LINE_PREFIX = "kraal.plugins listens on port ";

    private PluginProcess() {
    }

    /**
     * Replaces standard input with an empty stream, and redirects standard error to standard output and
     * {@code java.util.logging} to log4j.
     */
    private static void claimStreams() {
        System.setIn(new ByteArrayInputStream(new byte[0])); // plugins that read standard input would block
        System.setErr(System.out);
        Logger root = LogManager.getLogManager().getLogger("");
        for (Handler handler : root.getHandlers()) {
            root.removeHandler(handler);
        }
        root.addHandler(new ToLog4j());
    }

    /** Forwards records of {@code java.util.logging} to log4j, with their logger and level, on the same thread. */
    static final class ToLog4j extends Handler {
        private final Formatter formatter = new SimpleFormatter();

        @Override
        public void publish(LogRecord line) {
            int level = line.getLevel().intValue();
            String logger = line.getLoggerName() == null ? "" : line.getLoggerName();
            org.apache.logging.log4j.LogManager.getLogger(logger).log(
                level >= Level.SEVERE.intValue() ? org.apache.logging.log4j.Level.ERROR
                    : level >= Level.WARNING.intValue() ? org.apache.logging.log4j.Level.WARN
                    : level >= Level.INFO.intValue() ? org.apache.logging.log4j.Level.INFO
                    : org.apache.logging.log4j.Level.DEBUG,
                (Object) formatter.formatMessage(line), line.getThrown());
        }

        @Override
        public void flush() {
            // log4j flushes
        }

        @Override
        public void close() {
            // no resources
        }
    }

    public static void main(String[] args) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Map<String, Object> request = Json.object(input.readLine());
        if (request.get("command") != null) {
            System.setProperty("sun.java.command", (String) request.get("command"));
        }
        claimStreams();
        // TERM may be sent to the whole process group; this process ends with the worker.
        Signal.handle(new Signal("TERM"), signal -> { });
        PluginWorker worker = new PluginWorker(
            Json.strings(request.get("plugins")), Json.listOfStrings(request.get("scan")));
        GatewayServer server = new GatewayServer.GatewayServerBuilder(worker)
            .javaPort(0)
            .authToken((String) request.get("token"))
            .build();
        server.start();
        System.out.println(); // completes a line that a plugin has printed without a newline
        System.out.println(PORT_LINE_PREFIX + server.getListeningPort());
        System.out.flush();
        while (input.readLine() != null) {
            // no more input is sent; the stream ends with the Python worker
        }
        worker.close();
        ExitGuard.halt();
    }
}
