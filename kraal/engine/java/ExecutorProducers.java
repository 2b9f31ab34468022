package kraal;

import java.util.ArrayList;
import java.util.Collections;
import java.util.Map;
import org.apache.spark.SparkContext;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.api.plugin.SparkPlugin;

/**
 * Closes Kafka producers in executors when the driver asks for it, and all of them while the driver does not answer.
 *
 * Executors ask the driver several times a second which producers to end, because Spark gives drivers no way to call
 * them. The driver counts its requests; an executor's first question tells it the count of that moment.
 */
public final class ExecutorProducers implements SparkPlugin {
    private static final long ASK_MS = 250;
    private static final long SILENCE_MS = 5000;
    private static final int KEPT = 1000;

    private static final ArrayList REQUESTS = new ArrayList();
    private static long first = 0;

    /** Tells executors to end the producers with a client id; null: all. Called in the driver. */
    public void end(String client) {
        synchronized (REQUESTS) {
            REQUESTS.add(client);
            if (REQUESTS.size() > KEPT) {
                REQUESTS.remove(0);
                first++;
            }
        }
    }

    public DriverPlugin driverPlugin() {
        return new OfDriver();
    }

    public ExecutorPlugin executorPlugin() {
        return new OfExecutor();
    }

    /** Returns the count of requests, then those after a count; after more than are kept, the request to end all. */
    static Object[] since(long count) {
        synchronized (REQUESTS) {
            ArrayList found = new ArrayList();
            found.add(Long.valueOf(first + REQUESTS.size()));
            if (count >= 0 && count < first) {
                found.add(null);
            } else if (count >= 0) {
                found.addAll(REQUESTS.subList((int) (count - first), REQUESTS.size()));
            }
            return found.toArray();
        }
    }

    public static final class OfDriver implements DriverPlugin {
        public Map init(SparkContext context, PluginContext plugin) {
            return Collections.EMPTY_MAP;
        }

        public Object receive(Object count) {
            return since(((Number) count).longValue());
        }
    }

    public static final class OfExecutor implements ExecutorPlugin {
        private final Producers producers = new Producers();
        private volatile long answered;
        private volatile boolean ended;

        public void init(final PluginContext plugin, Map settings) {
            answered = System.nanoTime();
            start("kraal-producers-ask", new Runnable() {
                public void run() {
                    ask(plugin);
                }
            });
            start("kraal-producers-watch", new Runnable() {
                public void run() {
                    watch();
                }
            });
        }

        public void shutdown() {
            ended = true;
            end(null);
        }

        void ask(PluginContext plugin) {
            long count = -1;
            while (!ended) {
                try {
                    Object[] answer = (Object[]) plugin.ask(Long.valueOf(count));
                    for (int i = 1; i < answer.length; i++) {
                        end((String) answer[i]);
                    }
                    count = ((Long) answer[0]).longValue();
                    answered = System.nanoTime();
                } catch (Exception e) {
                    // The driver is away; `watch` counts how long.
                }
                rest();
            }
        }

        /** Ends all producers again and again while the driver is silent: tasks that run on create others. */
        void watch() {
            while (!ended) {
                if (System.nanoTime() - answered > SILENCE_MS * 1000000L) {
                    end(null);
                }
                rest();
            }
        }

        private void end(String client) {
            try {
                producers.end(client);
            } catch (Throwable e) {
                Runtime.getRuntime().halt(1);
            }
        }

        private static void rest() {
            try {
                Thread.sleep(ASK_MS);
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
