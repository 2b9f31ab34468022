package kraal.plugins;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.connect.runtime.CloseableConnectorContext;
import org.apache.kafka.connect.runtime.ConnectorStatus;
import org.apache.kafka.connect.runtime.TargetState;
import org.apache.kafka.connect.runtime.TooManyTasksException;
import org.apache.kafka.connect.util.Callback;

/** The context and the outcome of one start of a connector. */
final class RunningConnector implements CloseableConnectorContext, ConnectorStatus.Listener, Callback<TargetState> {
    /** Completes with null when the connector is running, or with the stack trace if the start fails. */
    final CompletableFuture<String> started = new CompletableFuture<>();
    final long run;
    private final String name;
    private final Events events;
    private final PluginMetricsImpl metrics;
    private final AtomicBoolean removed = new AtomicBoolean();
    private volatile boolean detached;
    private volatile String stopTrace;
    private volatile boolean stillRuns;

    /** {@code run} is the number that Python has assigned to this start. */
    RunningConnector(String name, long run, Events events, PluginMetricsImpl metrics) {
        this.name = name;
        this.run = run;
        this.events = events;
        this.metrics = metrics;
    }

    @Override
    public void requestTaskReconfiguration() {
        report("reconfigure", null);
    }

    @Override
    public void raiseError(Exception e) {
        report("raised", Utils.stackTrace(e));
    }

    @Override
    public PluginMetrics pluginMetrics() {
        return metrics;
    }

    /** Drops all further requests and errors, because this start is ending. */
    void detach() {
        detached = true;
    }

    /** Removes the connector's own metrics, but only once: a later start may register metrics with the same names. */
    @Override
    public void close() {
        detach();
        if (removed.compareAndSet(false, true)) {
            Utils.closeQuietly(metrics, "metrics of the connector " + name);
        }
    }

    @Override
    public void onCompletion(Throwable error, TargetState result) {
        started.complete(error == null ? null : Utils.stackTrace(error));
    }

    @Override
    public void onFailure(String connector, Throwable cause) {
        stillRuns = cause instanceof TooManyTasksException;
        if (detached) {
            stopTrace = Utils.stackTrace(cause);
        } else if (!started.complete(Utils.stackTrace(cause))) {
            report("raised", Utils.stackTrace(cause));
        }
    }

    /**
     * Returns whether the plugin's object is still running although the connector has failed. Kafka's worker does not stop
     * the object of a connector that failed because it returned too many task configs.
     */
    boolean stillRuns() {
        return stillRuns;
    }

    /** Returns the stack trace of the exception that {@code stop} threw, or null. */
    String stopTrace() {
        return stopTrace;
    }

    private void report(String what, String trace) {
        if (!detached) {
            events.addConnectorEvent(name, run, what, trace);
        }
    }

    @Override
    public void onStartup(String connector) {
        // reported through `started`
    }

    @Override
    public void onPause(String connector) {
        // reported by the connector's actor
    }

    @Override
    public void onResume(String connector) {
        // reported by the connector's actor
    }

    @Override
    public void onStop(String connector) {
        // reported by the connector's actor
    }

    @Override
    public void onShutdown(String connector) {
        // reported by the connector's actor
    }

    @Override
    public void onDeletion(String connector) {
        // called only by Kafka's herder
    }

    @Override
    public void onRestart(String connector) {
        // called only by Kafka's herder
    }
}
