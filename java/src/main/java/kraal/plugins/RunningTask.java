package kraal.plugins;

import java.util.Arrays;
import java.util.Map;
import java.util.TreeSet;
import java.util.Set;
import java.util.function.Supplier;
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
 * One run of a task: reports its state transitions and, on request, its progress.
 *
 * <p>{@code run} is the number that Python has assigned to the run, to distinguish the events of runs.
 */
final class RunningTask implements TaskStatus.Listener {
    private static final Logger LOG = LoggerFactory.getLogger(RunningTask.class);
    private static final String TASKS = "org.apache.kafka.connect.runtime.Worker";
    /** The names of sensors of Kafka's {@code WorkerTask}, {@code AbstractWorkerSourceTask} and {@code WorkerSinkTask}. */
    private static final String COMMITS = "commit-time";
    private static final String POLLS = "poll-batch-time";
    private static final String PUTS = "put-batch-time";
    private static final long BACKLOG_NS = 5_000_000_000L;
    final ConnectorTaskId id;
    final long run;
    private final Events events;
    final boolean source;
    private final Supplier<Map<String, Object>> numbers;
    private final Set<String> topics = new TreeSet<>();
    private final Times work = new Times();
    private final Times commits = new Times();
    private KafkaMetric[] counters = new KafkaMetric[0];
    private String reported = "";
    private Map<String, Object> reportedTimes;
    private boolean busy;
    private Backlog reportedBacklog = new Backlog(0, 0, 0);
    /** When the next backlog may be reported, by {@link System#nanoTime}; null for immediately. */
    private Long backlogDue;
    /** The thread that runs the task, once it has started. */
    private volatile Thread thread;

    /** {@code numbers} returns the metrics of the task. */
    RunningTask(
        ConnectorTaskId id, long run, boolean source, Events events, Supplier<Map<String, Object>> numbers) {
        this.id = id;
        this.run = run;
        this.source = source;
        this.events = events;
        this.numbers = numbers;
        this.reportedTimes = timesSoFar();
    }

    /** Looks up the sensors of the task, which exist from its start to its end. */
    synchronized void measure(ConnectMetrics metrics) {
        ConnectMetricsRegistry names = metrics.registry();
        String[] tags = {
            names.connectorTagName(), id.connector(), names.taskTagName(), Integer.toString(id.task())};
        ConnectMetrics.MetricGroup own =
            metrics.group(source ? names.sourceTaskGroupName() : names.sinkTaskGroupName(), tags);
        MetricNameTemplate[] wanted = source
            ? new MetricNameTemplate[] {names.sourceRecordPollTotal, names.sourceRecordWriteTotal}
            : new MetricNameTemplate[] {
                names.sinkRecordReadTotal, names.sinkRecordSendTotal, names.sinkRecordPartitionCount};
        KafkaMetric[] found = new KafkaMetric[wanted.length];
        for (int i = 0; i < wanted.length; i++) {
            found[i] = metrics.metrics().metric(own.metricName(wanted[i]));
        }
        counters = found;
        own.sensor(source ? POLLS : PUTS).add(work);
        metrics.group(names.taskGroupName(), tags).sensor(COMMITS).add(commits);
    }

    /** Records that the task uses a topic. */
    void uses(String topic) {
        synchronized (topics) {
            topics.add(topic);
        }
    }

    /** Reports the records read and written since the start, a sink's partitions, and topics, if they have changed. */
    synchronized void progress() {
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
        if (!text.equals(reported)) {
            reported = text;
            events.ofTask(id, run, "progress", detail);
        }
    }

    /**
     * Reports the counts and total durations in milliseconds, since the start, of a source's polls that returned records,
     * or a sink's puts, and of offset commits, if they have changed.
     */
    synchronized void times() {
        Map<String, Object> now = timesSoFar();
        if (!now.equals(reportedTimes)) {
            reportedTimes = now;
            events.ofTask(id, run, "times", now);
        }
    }

    private Map<String, Object> timesSoFar() {
        return Map.of(source ? "poll" : "put", work.soFar(), "commit", commits.soFar());
    }

    /**
     * Reports a sink's backlog, at most every five seconds, if it has changed or is not empty, because Python measures
     * the time in which no records are read.
     */
    synchronized void behind(Backlog now, long nanoTime) {
        if ((backlogDue != null && nanoTime - backlogDue < 0) || (now.records() == 0 && now.equals(reportedBacklog))) {
            return;
        }
        backlogDue = nanoTime + BACKLOG_NS;
        reportedBacklog = now;
        events.ofTask(id, run, "backlog", now.detail());
    }

    /** Returns whether the task's thread is executing one of these methods of its class. */
    boolean isInside(Set<String> methods) {
        Thread runs = thread;
        return runs != null && Arrays.stream(runs.getStackTrace()).anyMatch(
            each -> each.getClassName().startsWith(TASKS) && methods.contains(each.getMethodName()));
    }

    /** Reports whether the task is in a step, if that has changed. */
    synchronized void works(boolean now) {
        if (now != busy) {
            busy = now;
            events.ofTask(id, run, "busy", now);
        }
    }

    @Override
    public void onStartup(ConnectorTaskId task) {
        thread = Thread.currentThread(); // Kafka calls this on the task's thread
        events.ofTask(id, run, "started", null);
    }

    @Override
    public void onPause(ConnectorTaskId task) {
        events.ofTask(id, run, "paused", null);
    }

    @Override
    public void onResume(ConnectorTaskId task) {
        events.ofTask(id, run, "resumed", null);
    }

    @Override
    public void onFailure(ConnectorTaskId task, Throwable cause) {
        try {
            events.ofTask(id, run, "measured", numbers.get()); // report the metrics before Kafka removes them with the task
        } catch (RuntimeException e) {
            LOG.warn("The last numbers of task {} are unknown", id, e);
        }
        events.ofTask(id, run, "failed", Utils.stackTrace(cause));
    }

    @Override
    public void onShutdown(ConnectorTaskId task) {
        progress();
        events.ofTask(id, run, "ended", null);
    }

    @Override
    public void onDeletion(ConnectorTaskId task) {
        // handled by the herder
    }

    @Override
    public void onRestart(ConnectorTaskId task) {
        // handled by the herder
    }
}
