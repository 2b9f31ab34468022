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
 * Closes Kafka producers in executors when the driver asks for it, and all of them while the driver does not answer;
 * collects the refusals of their requests in the driver.
 *
 * Executors ask the driver several times a second which producers to end, because Spark gives drivers no way to call
 * them. The driver counts its requests; an executor's first question returns the count of that moment. Each question
 * contains the latest refusals.
 */
public final class ExecutorProducers implements SparkPlugin {
    private static final long ASK_MS = 250;
    private static final long SILENCE_MS = 5000;
    private static final int KEPT = 1000;
    private static final long REFUSAL_AGE_MS = 20000;

    private static final ArrayList REQUESTS = new ArrayList();
    /** The time and text of the latest refusals, by executor. */
    private static final HashMap REFUSALS = new HashMap();
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

    /** Returns the refusals of the last seconds in all executors, in the lines of `Refusals`. Called in the driver. */
    public String refusals() {
        long oldest = System.currentTimeMillis() - REFUSAL_AGE_MS;
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

    static void refused(String executor, String refusals) {
        synchronized (REFUSALS) {
            if (refusals.length() == 0) {
                REFUSALS.remove(executor);
            } else {
                REFUSALS.put(executor, new Object[] {Long.valueOf(System.currentTimeMillis()), refusals});
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

        public Object receive(Object message) {
            Object[] question = (Object[]) message;
            refused((String) question[1], (String) question[2]);
            return since(((Number) question[0]).longValue());
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
                    Object[] question = {Long.valueOf(count), plugin.executorID(), refusals()};
                    Object[] answer = (Object[]) plugin.ask(question);
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

        private static String refusals() {
            try {
                return Refusals.get().since(REFUSAL_AGE_MS);
            } catch (Throwable e) {
                return ""; // the executor has another library for its log; its producers must end all the same
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
