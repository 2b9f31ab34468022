package kraal.testing;

import java.lang.reflect.Field;

/**
 * Keeps Jetty from registering a shutdown hook in a Java Connect worker.
 *
 * <p>Jetty's hook and Connect's hook run concurrently, and both stop the REST server. Sometimes
 * {@code RestServer.stop} (Kafka 4.4.0) then waits forever in {@code Server.join}, and the worker does not exit.
 */
public final class ShutdownAgent {
    private ShutdownAgent() {
    }

    public static void premain(String arguments) throws ReflectiveOperationException {
        Class<?> jettyHook = Class.forName("org.eclipse.jetty.util.thread.ShutdownThread");
        Field isRegistered = jettyHook.getDeclaredField("_hooked");
        isRegistered.setAccessible(true);
        isRegistered.setBoolean(jettyHook.getMethod("getInstance").invoke(null), true);
    }
}
