package kraal.plugins;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.logging.LogRecord;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.ThreadContext;
import org.apache.logging.log4j.core.LogEvent;
import org.apache.logging.log4j.core.LoggerContext;
import org.apache.logging.log4j.core.appender.AbstractAppender;
import org.apache.logging.log4j.core.config.Property;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Tests for the format of log lines that the Python worker parses. */
final class LogLinesTest {
    private final LoggerContext context = (LoggerContext) LogManager.getContext(false);
    private final Lines lines = new Lines(context);

    @BeforeEach
    void start() {
        lines.start();
        context.getRootLogger().addAppender(lines);
        ThreadContext.put("connector.context", "[orders|task-0] ");
    }

    @AfterEach
    void stop() {
        context.getRootLogger().removeAppender(lines);
        ThreadContext.clearAll();
    }

    @Test
    void multilineMessageIsOneLine() throws Exception {
        String text = "Bad record: a\n[\"ERROR\",\"x\",\"[other|task-0] \",\"forged\"]\r\u2028\"\\\u0085";
        LogManager.getLogger("a.B").warn(text, new IllegalStateException(text));
        List<String> parts = parseOnlyLine();
        assertEquals(List.of("WARN", "a.B", "[orders|task-0] "), parts.subList(0, 3));
        assertTrue(parts.get(3).startsWith(text + "\njava.lang.IllegalStateException: " + text + "\n\tat "), parts.get(3));
    }

    @Test
    void javaUtilLoggingKeepsLoggersAndLevels() throws Exception {
        LogRecord line = new LogRecord(java.util.logging.Level.WARNING, "{0} records");
        line.setLoggerName("com.example.Client");
        line.setParameters(new Object[] {3});
        new PluginProcess.ToLog4j().publish(line);
        assertEquals(List.of("WARN", "com.example.Client", "[orders|task-0] ", "3 records\n"), parseOnlyLine());
    }

    private List<String> parseOnlyLine() throws Exception {
        assertEquals(1, lines.writtenLines.size());
        String line = lines.writtenLines.get(0);
        assertEquals(line.length() - 1, line.indexOf('\n'), line);
        return List.of(new ObjectMapper().readValue(line, String[].class));
    }

    /** Formats log events as the plugins' process does. */
    private static final class Lines extends AbstractAppender {
        final List<String> writtenLines = new ArrayList<>();

        Lines(LoggerContext context) {
            super("test", null, context.getConfiguration().getAppender("lines").getLayout(), false, Property.EMPTY_ARRAY);
        }

        @Override
        public void append(LogEvent event) {
            if (event.getLevel().isMoreSpecificThan(Level.WARN)) {
                writtenLines.add(new String(getLayout().toByteArray(event), StandardCharsets.UTF_8));
            }
        }
    }
}
