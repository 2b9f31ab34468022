package kraal.plugins;

import java.util.Arrays;
import java.util.Map;
import java.util.TreeSet;
import java.util.Set;
import java.util.function.Supplier;
import kraal.plugins.ledger.RecordCounts;
import org.apache.kafka.common.MetricNameTemplate;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.connect.runtime.ConnectMetrics;
import org.apache.kafka.connect.runtime.ConnectMetricsRegistry;
import org.apache.kafka.connect.runtime.TaskStatus;
import org.apache.kafka.connect.util.ConnectorTaskId;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One run of a task. Reports the task's state transitions and, on request, its progress.
 *
 * <p>{@code run} is the number that Python has assigned to the run, to distinguish the events of runs.
 */
final class RunningTask implements TaskStatus.Listener {
    private static final Logger LOG = LoggerFactory.getLogger(RunningTask.class);
    private static final String TASK_CLASS_PREFIX = "org.apache.kafka.connect.runtime.Worker";
    /** The names of sensors of Kafka's {@code WorkerTask}, {@code AbstractWorkerSourceTask} and {@code WorkerSinkTask}. */
    private static final String COMMIT_SENSOR = "commit-time";
    private static final String POLL_SENSOR = "poll-batch-time";
    private static final String PUT_SENSOR = "put-batch-time";
    private static final long BACKLOG_INTERVAL_NS = 5_000_000_000L;
    final ConnectorTaskId id;
    final long run;
    private final Events events;
    final boolean isSource;
    private final Supplier<Map<String, Object>> readMetrics;
    private final Set<String> topics = new TreeSet<>();
    private final Times work = new Times();
    private final Times commits = new Times();
    private KafkaMetric[] counters = new KafkaMetric[0];
    private String reportedProgress = "";
    private Map<String, Object> reportedTimes;
    private boolean isBusy;
    private Backlog reportedBacklog = new Backlog(0, 0, 0);
    /** The time until which no backlog is reported again, by {@link System#nanoTime}; null if there is no such limit. */
    private Long backlogDue;
    /** The thread that runs the task, once it has started. */
    private volatile Thread thread;
    /** The counts of the task's records; null without a ledger. */
    private volatile RecordCounts counts;

    /** {@code readMetrics} returns the metrics of the task. */
    RunningTask(
        ConnectorTaskId id, long run, boolean isSource, Events events, Supplier<Map<String, Object>> readMetrics) {
        this.id = id;
        this.run = run;
        this.isSource = isSource;
        this.events = events;
        this.readMetrics = readMetrics;
        this.reportedTimes = timesSoFar();
    }

    /** Looks up the sensors of the task, which exist from its start to its end. */
    synchronized void findSensors(ConnectMetrics metrics) {
        ConnectMetricsRegistry names = metrics.registry();
        String[] tags = {
            names.connectorTagName(), id.connector(), names.taskTagName(), Integer.toString(id.task())};
        ConnectMetrics.MetricGroup group =
            metrics.group(isSource ? names.sourceTaskGroupName() : names.sinkTaskGroupName(), tags);
        MetricNameTemplate[] templates = isSource
            ? new MetricNameTemplate[] {names.sourceRecordPollTotal, names.sourceRecordWriteTotal}
            : new MetricNameTemplate[] {
                names.sinkRecordReadTotal, names.sinkRecordSendTotal, names.sinkRecordPartitionCount};
        KafkaMetric[] taskCounters = new KafkaMetric[templates.length];
        for (int i = 0; i < templates.length; i++) {
            taskCounters[i] = metrics.metrics().metric(group.metricName(templates[i]));
        }
        counters = taskCounters;
        group.sensor(isSource ? POLL_SENSOR : PUT_SENSOR).add(work);
        metrics.group(names.taskGroupName(), tags).sensor(COMMIT_SENSOR).add(commits);
    }

    /** Sets the counts of the task's records. */
    void setCounts(RecordCounts recordCounts) {
        counts = recordCounts;
    }

    /** Records that the task uses a topic. */
    void addTopic(String topic) {
        synchronized (topics) {
            topics.add(topic);
        }
    }

    /** Reports, if changed, the total records read and written, the number of a sink's partitions, and the topics. */
    synchronized void reportProgress() {
        long[] values = new long[3];
        for (int i = 0; i < counters.length; i++) {
            Object value = counters[i] == null ? null : counters[i].metricValue();
            values[i] = value instanceof Number number ? number.longValue() : 0;
        }
        Map<String, Object> detail;
        synchronized (topics) {
            detail = Map.of(
                "read", values[0], "written", values[1], "partitions", values[2], "topics", new TreeSet<>(topics));
        }
        String text = Json.text(detail);
        if (!text.equals(reportedProgress)) {
            reportedProgress = text;
            events.addTaskEvent(id, run, "progress", detail);
        }
    }

    /**
     * Reports, if changed, the counts and total durations (in milliseconds) of a source's polls that returned records or
     * a sink's puts, and of successful offset commits, since the start of the task.
     */
    synchronized void reportTimes() {
        Map<String, Object> now = timesSoFar();
        if (!now.equals(reportedTimes)) {
            reportedTimes = now;
            events.addTaskEvent(id, run, "times", now);
        }
    }

    /** Reports the counts of the records whose offsets were committed since the last report. */
    synchronized void reportCounts() {
        Map<String, Object> committed = counts == null ? null : counts.take();
        if (committed != null) {
            events.addTaskEvent(id, run, "counted", committed);
        }
    }

    private Map<String, Object> timesSoFar() {
        return Map.of(isSource ? "poll" : "put", work.soFar(), "commit", commits.soFar());
    }

    /**
     * Reports a sink's backlog if it has changed or is not empty, at most once every five seconds. From these reports,
     * Python measures the time in which no records are read.
     */
    synchronized void reportBacklog(Backlog now, long nanoTime) {
        if ((backlogDue != null && nanoTime - backlogDue < 0) || (now.records() == 0 && now.equals(reportedBacklog))) {
            return;
        }
        backlogDue = nanoTime + BACKLOG_INTERVAL_NS;
        reportedBacklog = now;
        events.addTaskEvent(id, run, "backlog", now.detail());
    }

    /** Returns whether the task's thread is executing one of these methods of Kafka's task class. */
    boolean isInside(Set<String> methods) {
        Thread taskThread = thread;
        return taskThread != null && Arrays.stream(taskThread.getStackTrace()).anyMatch(
            frame -> frame.getClassName().startsWith(TASK_CLASS_PREFIX) && methods.contains(frame.getMethodName()));
    }

    /** Reports whether the task is busy, if that has changed. */
    synchronized void setBusy(boolean now) {
        if (now != isBusy) {
            isBusy = now;
            events.addTaskEvent(id, run, "busy", now);
        }
    }

    @Override
    public void onStartup(ConnectorTaskId task) {
        thread = Thread.currentThread(); // Kafka calls this on the task's thread
        events.addTaskEvent(id, run, "started", null);
    }

    @Override
    public void onPause(ConnectorTaskId task) {
        events.addTaskEvent(id, run, "paused", null);
    }

    @Override
    public void onResume(ConnectorTaskId task) {
        events.addTaskEvent(id, run, "resumed", null);
    }

    @Override
    public void onFailure(ConnectorTaskId task, Throwable cause) {
        reportCounts();
        try {
            events.addTaskEvent(id, run, "measured", readMetrics.get()); // report the metrics before Kafka removes them with the task
        } catch (RuntimeException e) {
            LOG.warn("Failed to read the last metrics of task {}", id, e);
        }
        events.addTaskEvent(id, run, "failed", Utils.stackTrace(cause));
    }

    @Override
    public void onShutdown(ConnectorTaskId task) {
        reportProgress();
        reportCounts();
        events.addTaskEvent(id, run, "ended", null);
    }

    @Override
    public void onDeletion(ConnectorTaskId task) {
        // called only by Kafka's herder
    }

    @Override
    public void onRestart(ConnectorTaskId task) {
        // called only by Kafka's herder
    }
}
