package kraal;

import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.core.Appender;
import org.apache.logging.log4j.core.LogEvent;
import org.apache.logging.log4j.core.LoggerContext;
import org.apache.logging.log4j.core.appender.AbstractAppender;
import org.apache.logging.log4j.core.config.Configuration;
import org.apache.logging.log4j.core.config.LoggerConfig;
import org.apache.logging.log4j.core.config.Property;

/**
 * Collects the latest warnings of Kafka's producers about requests that brokers refused and that are retried.
 *
 * Producers only log such errors while they retry a request, possibly forever.
 */
public final class Refusals extends AbstractAppender {
    private static final String[] LOGGERS = {
        "org.apache.kafka.clients.producer.internals.Sender", "org.apache.kafka.clients.NetworkClient"
    };
    private static final int MAX_WARNINGS = 500;
    private static Refusals instance;
    /** Maps each warning, without its variable numbers, to the time of the latest occurrence and the count. */
    private final LinkedHashMap warnings = new LinkedHashMap();

    private Refusals() {
        super("kraal-refusals", null, null, true, Property.EMPTY_ARRAY);
        start();
    }

    /** Returns the collector of this JVM; the first call starts it. */
    public static synchronized Refusals get() {
        if (instance == null) {
            instance = new Refusals();
            LoggerContext context = (LoggerContext) LogManager.getContext(false);
            Configuration configuration = context.getConfiguration();
            Appender file = configuration.getAppender("file");
            for (int i = 0; i < LOGGERS.length; i++) {
                LoggerConfig logger = new LoggerConfig(LOGGERS[i], Level.WARN, file == null);
                logger.addAppender(instance, Level.WARN, null);
                if (file != null) {
                    logger.addAppender(file, Level.ERROR, null);
                }
                configuration.addLogger(LOGGERS[i], logger);
            }
            context.updateLoggers();
        }
        return instance;
    }

    public void append(LogEvent event) {
        String text = event.getMessage().getFormattedMessage();
        if (text.startsWith("[Producer ")) {
            String key = text.replace('\n', ' ')
                .replaceAll("correlation id \\d+", "correlation id")
                .replaceAll(" \\(-?\\d+ attempts left\\)", "");
            add(key, event.getTimeMillis());
        }
    }

    private synchronized void add(String warning, long timeMs) {
        long[] entry = (long[]) warnings.remove(warning);
        if (entry == null) {
            entry = new long[] {0, 0};
        }
        entry[0] = timeMs;
        entry[1]++;
        warnings.put(warning, entry);
        if (warnings.size() > MAX_WARNINGS) {
            Iterator oldest = warnings.keySet().iterator();
            oldest.next();
            oldest.remove();
        }
    }

    /** Returns the warnings of the last `ageMs` milliseconds, oldest first; each line has a count and a text. */
    public synchronized String since(long ageMs) {
        long startMs = System.currentTimeMillis() - ageMs;
        StringBuilder text = new StringBuilder();
        Iterator entries = warnings.entrySet().iterator();
        while (entries.hasNext()) {
            Map.Entry entry = (Map.Entry) entries.next();
            long[] numbers = (long[]) entry.getValue();
            if (numbers[0] >= startMs) {
                text.append(text.length() == 0 ? "" : "\n").append(numbers[1]).append(' ').append(entry.getKey());
            }
        }
        return text.toString();
    }
}
