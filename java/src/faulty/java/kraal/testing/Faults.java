package kraal.testing;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.RetriableException;

/** Faults of a plugin, configured by fault and method. */
final class Faults {
    private static final String FAULT_KEY = "fault";
    private static final String METHOD_KEY = "fault.at";

    private Faults() {
    }

    /** Adds the keys {@code fault} and {@code fault.at} of a plugin with these methods. */
    static ConfigDef define(ConfigDef keys, String... methods) {
        String[] allowedMethods = new String[methods.length + 1];
        allowedMethods[0] = "";
        System.arraycopy(methods, 0, allowedMethods, 1, methods.length);
        return keys
            .define(
                FAULT_KEY, ConfigDef.Type.STRING, "",
                ConfigDef.ValidString.in(
                    "", "throw", "retriable", "error", "exit", "memory", "exhaust", "block", "thread", "tasks"),
                ConfigDef.Importance.LOW, "The fault.")
            .define(
                METHOD_KEY, ConfigDef.Type.STRING, "", ConfigDef.ValidString.in(allowedMethods), ConfigDef.Importance.LOW,
                "The method in which the fault occurs.");
    }

    /** Executes the fault configured for {@code method}, if any. */
    static void at(String method, Map<String, ?> config) {
        if (config == null || !method.equals(config.get(METHOD_KEY))) {
            return;
        }
        switch (String.valueOf(config.get(FAULT_KEY))) {
            case "throw" -> throw new ConnectException(method + " fails");
            case "retriable" -> throw new RetriableException(method + " fails for now");
            case "error" -> throw new NoClassDefFoundError(method);
            case "exit" -> System.exit(3);
            case "memory" -> throw new OutOfMemoryError("as if there were no memory in " + method);
            case "exhaust" -> exhaust();
            case "block" -> blockForever();
            case "thread" -> {
                for (String name : List.of("faulty-1", "faulty-2")) {
                    Thread leaked = new Thread(Faults::blockForever, name);
                    leaked.setDaemon(false);
                    leaked.start();
                }
            }
            default -> { }
        }
    }

    /** Allocates memory until the heap is exhausted. */
    private static void exhaust() {
        List<byte[]> blocks = new ArrayList<>();
        while (true) {
            blocks.add(new byte[1 << 20]);
        }
    }

    private static void blockForever() {
        while (true) {
            try {
                new CountDownLatch(1).await();
            } catch (InterruptedException e) {
                // ignores interrupts
            }
        }
    }
}
