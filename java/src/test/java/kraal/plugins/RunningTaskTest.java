package kraal.plugins;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.util.ConnectorTaskId;
import org.junit.jupiter.api.Test;

/** Tests for the events that a run of a task reports. */
final class RunningTaskTest {
    private static final ConnectorTaskId ID = new ConnectorTaskId("name", 2);
    private final Events events = new Events();
    private Map<String, Object> metrics = Map.of("total-retries", 3.0);
    private final RunningTask task = new RunningTask(ID, 9, true, events, () -> metrics);

    @Test
    void progressIsReportedWhenItHasChanged() throws InterruptedException {
        task.reportProgress();
        task.reportProgress();
        task.addTopic("topic");
        task.reportProgress();
        List<Map<String, Object>> takenEvents = events.take(0);
        assertEquals(2, takenEvents.size());
        assertEquals(Set.of("topic"), ((Map<?, ?>) takenEvents.get(1).get("detail")).get("topics"));
    }

    @Test
    void startAndEndOfAStepAreReported() throws InterruptedException {
        task.setBusy(false);
        task.setBusy(true);
        task.setBusy(true);
        task.setBusy(false);
        assertEquals(List.of(true, false), events.take(0).stream().map(event -> event.get("detail")).toList());
    }

    @Test
    void failureContainsTheStackTrace() throws InterruptedException {
        task.onFailure(ID, new ConnectException("broken"));
        Map<String, Object> event = events.take(0).get(1);
        assertEquals("failed", event.get("what"));
        assertTrue(((String) event.get("detail")).startsWith(
            "org.apache.kafka.connect.errors.ConnectException: broken\n\tat "));
    }

    @Test
    void finalMetricsAreReportedBeforeTheFailure() throws InterruptedException {
        task.onFailure(ID, new ConnectException("broken"));
        metrics = Map.of();
        Map<String, Object> event = events.take(0).get(0);
        assertEquals("measured", event.get("what"));
        assertEquals(Map.of("total-retries", 3.0), event.get("detail"));
    }

    @Test
    void failureIsReportedWithoutMetrics() throws InterruptedException {
        RunningTask taskWithoutMetrics = new RunningTask(ID, 9, true, events, () -> {
            throw new IllegalStateException("no metrics");
        });
        taskWithoutMetrics.onFailure(ID, new ConnectException("broken"));
        assertEquals("failed", events.take(0).get(0).get("what"));
    }
}
