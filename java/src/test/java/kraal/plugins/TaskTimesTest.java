package kraal.plugins;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.runtime.ConnectMetrics;
import org.apache.kafka.connect.runtime.standalone.StandaloneConfig;
import org.apache.kafka.connect.util.ConnectorTaskId;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Tests for the durations of a task's steps, which Kafka's classes measure. */
final class TaskTimesTest {
    private static final ConnectorTaskId ID = new ConnectorTaskId("name", 2);
    private static final String RUNTIME_PACKAGE = "org.apache.kafka.connect.runtime.";
    private final Events events = new Events();
    private final ConnectMetrics metrics = new ConnectMetrics("worker", new StandaloneConfig(Map.of(
        "bootstrap.servers", "127.0.0.1:9", "offset.storage.file.filename", "none",
        "key.converter", "org.apache.kafka.connect.storage.StringConverter",
        "value.converter", "org.apache.kafka.connect.storage.StringConverter")), Time.SYSTEM, "cluster");

    @AfterEach
    void stop() {
        metrics.stop();
    }

    @Test
    void sourceReportsPollsAndCommits() throws Exception {
        Object polls = createMetricsGroup("AbstractWorkerSourceTask$SourceTaskMetricsGroup", ID, metrics);
        Object commits = createMetricsGroup("WorkerTask$TaskMetricsGroup", ID, metrics, task(true));
        RunningTask task = task(true);
        int published = metrics.metrics().metrics().size();
        task.findSensors(metrics);
        assertEquals(published, metrics.metrics().metrics().size(), "no metrics are published in addition to Kafka's");
        call(polls, "recordPoll", 10, 30L);
        call(polls, "recordPoll", 10, 50L);
        call(commits, "recordCommit", 7L, true);
        call(commits, "recordCommit", 1000L, false);
        assertEquals(Map.of("poll", List.of(2L, 80.0), "commit", List.of(1L, 7.0)), reportTimes(task));
    }

    @Test
    void sinkReportsPutsAndCommits() throws Exception {
        Object puts = createMetricsGroup("WorkerSinkTask$SinkTaskMetricsGroup", ID, metrics);
        createMetricsGroup("WorkerTask$TaskMetricsGroup", ID, metrics, task(false));
        RunningTask task = task(false);
        task.findSensors(metrics);
        call(puts, "recordPut", 12L);
        assertEquals(Map.of("put", List.of(1L, 12.0), "commit", List.of(0L, 0.0)), reportTimes(task));
    }

    @Test
    void timesAreReportedWhenTheyHaveChanged() throws Exception {
        Object puts = createMetricsGroup("WorkerSinkTask$SinkTaskMetricsGroup", ID, metrics);
        createMetricsGroup("WorkerTask$TaskMetricsGroup", ID, metrics, task(false));
        RunningTask task = task(false);
        task.reportTimes();
        task.findSensors(metrics);
        task.reportTimes();
        assertEquals(List.of(), events.take(0));
        call(puts, "recordPut", 0L);
        task.reportTimes();
        task.reportTimes();
        assertEquals(1, events.take(0).size());
    }

    private RunningTask task(boolean source) {
        return new RunningTask(ID, 9, source, events, Map::of);
    }

    private Object reportTimes(RunningTask task) throws InterruptedException {
        task.reportTimes();
        Map<String, Object> event = events.take(0).get(0);
        assertEquals("times", event.get("what"));
        return event.get("detail");
    }

    /** Creates the objects that Kafka's worker creates for a task. */
    private static Object createMetricsGroup(String name, Object... arguments) throws ReflectiveOperationException {
        Constructor<?> constructor = Arrays.stream(Class.forName(RUNTIME_PACKAGE + name).getDeclaredConstructors())
            .filter(candidate -> candidate.getParameterCount() == arguments.length).findFirst().orElseThrow();
        constructor.setAccessible(true);
        return constructor.newInstance(arguments);
    }

    private static void call(Object target, String name, Object... arguments) throws ReflectiveOperationException {
        Method method = Arrays.stream(target.getClass().getDeclaredMethods())
            .filter(candidate -> candidate.getName().equals(name)).findFirst().orElseThrow();
        method.setAccessible(true);
        method.invoke(target, arguments);
    }
}
