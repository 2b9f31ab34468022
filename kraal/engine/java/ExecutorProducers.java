package kraal;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import org.apache.spark.SparkContext;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.api.plugin.SparkPlugin;

/**
 * Closes Kafka producers in executors: those that the driver requests to close, and all of them while the driver does
 * not respond. Also collects, in the driver, the producers' requests that brokers refused.
 *
 * Executors poll the driver several times a second for producers to close, because Spark has no calls from the driver
 * to executors. The driver counts the requests to close producers; the first poll of an executor returns the current
 * count. Each poll contains the executor's latest refusals.
 */
public final class ExecutorProducers implements SparkPlugin {
    private static final long POLL_INTERVAL_MS = 250;
    private static final long DRIVER_TIMEOUT_MS = 5000;
    private static final int MAX_REQUESTS = 1000;
    private static final long MAX_REFUSAL_AGE_MS = 20000;

    private static final ArrayList REQUESTS = new ArrayList();
    /** The time and text of each executor's latest refusals. */
    private static final HashMap REFUSALS = new HashMap();
    /** The number of requests that were removed from the start of `REQUESTS`. */
    private static long removedCount = 0;

    /** Requests that executors close the producers of a client id, or all if `client` is null. Called in the driver. */
    public void end(String client) {
        synchronized (REQUESTS) {
            REQUESTS.add(client);
            if (REQUESTS.size() > MAX_REQUESTS) {
                REQUESTS.remove(0);
                removedCount++;
            }
        }
    }

    /** Returns the recent refusals in all executors, in the format of `Refusals`. Called in the driver. */
    public String refusals() {
        long oldest = System.currentTimeMillis() - MAX_REFUSAL_AGE_MS;
        StringBuilder text = new StringBuilder();
        synchronized (REFUSALS) {
            Iterator entries = REFUSALS.values().iterator();
            while (entries.hasNext()) {
                Object[] entry = (Object[]) entries.next();
                if (((Long) entry[0]).longValue() < oldest) {
                    entries.remove();
                } else {
                    text.append(text.length() == 0 ? "" : "\n").append(entry[1]);
                }
            }
        }
        return text.toString();
    }

    static void setRefusals(String executor, String refusals) {
        synchronized (REFUSALS) {
            if (refusals.length() == 0) {
                REFUSALS.remove(executor);
            } else {
                REFUSALS.put(executor, new Object[] {Long.valueOf(System.currentTimeMillis()), refusals});
            }
        }
    }

    public DriverPlugin driverPlugin() {
        return new DriverSide();
    }

    public ExecutorPlugin executorPlugin() {
        return new ExecutorSide();
    }

    /** Returns the number of requests so far, then the requests since `count`, or one null if some were removed. */
    static Object[] since(long count) {
        synchronized (REQUESTS) {
            ArrayList result = new ArrayList();
            result.add(Long.valueOf(removedCount + REQUESTS.size()));
            if (count >= 0 && count < removedCount) {
                result.add(null);
            } else if (count >= 0) {
                result.addAll(REQUESTS.subList((int) (count - removedCount), REQUESTS.size()));
            }
            return result.toArray();
        }
    }

    public static final class DriverSide implements DriverPlugin {
        public Map init(SparkContext context, PluginContext plugin) {
            return Collections.EMPTY_MAP;
        }

        public Object receive(Object message) {
            Object[] request = (Object[]) message;
            setRefusals((String) request[1], (String) request[2]);
            return since(((Number) request[0]).longValue());
        }
    }

    public static final class ExecutorSide implements ExecutorPlugin {
        private final Producers producers = new Producers();
        private volatile long lastResponseNs;
        private volatile boolean stopped;

        public void init(final PluginContext plugin, Map settings) {
            lastResponseNs = System.nanoTime();
            start("kraal-producers-ask", new Runnable() {
                public void run() {
                    pollDriver(plugin);
                }
            });
            start("kraal-producers-watch", new Runnable() {
                public void run() {
                    watchDriver();
                }
            });
        }

        public void shutdown() {
            stopped = true;
            end(null);
        }

        void pollDriver(PluginContext plugin) {
            long count = -1;
            while (!stopped) {
                try {
                    Object[] request = {Long.valueOf(count), plugin.executorID(), refusals()};
                    Object[] response = (Object[]) plugin.ask(request);
                    for (int i = 1; i < response.length; i++) {
                        end((String) response[i]);
                    }
                    count = ((Long) response[0]).longValue();
                    lastResponseNs = System.nanoTime();
                } catch (Exception e) {
                    // The driver did not respond; `watchDriver` closes the producers after DRIVER_TIMEOUT_MS.
                }
                pause();
            }
        }

        private static String refusals() {
            try {
                return Refusals.get().since(MAX_REFUSAL_AGE_MS);
            } catch (Throwable e) {
                return ""; // the executor may use another logging library; its producers must still be closed
            }
        }

        /** Closes all producers repeatedly while the driver does not respond, because running tasks create new ones. */
        void watchDriver() {
            while (!stopped) {
                if (System.nanoTime() - lastResponseNs > DRIVER_TIMEOUT_MS * 1000000L) {
                    end(null);
                }
                pause();
            }
        }

        private void end(String client) {
            try {
                producers.end(client);
            } catch (Throwable e) {
                Runtime.getRuntime().halt(1);
            }
        }

        private static void pause() {
            try {
                Thread.sleep(POLL_INTERVAL_MS);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }

        private static void start(String name, Runnable work) {
            Thread thread = new Thread(work, name);
            thread.setDaemon(true);
            thread.start();
        }
    }
}
