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

/** One start of a connector: its context, and what becomes of it. Requests after its end are dropped. */
final class RunningConnector implements CloseableConnectorContext, ConnectorStatus.Listener, Callback<TargetState> {
    /** Completes with null when the connector runs, or with the trace of what failed. */
    final CompletableFuture<String> started = new CompletableFuture<>();
    final long run;
    private final String name;
    private final Events events;
    private final PluginMetricsImpl metrics;
    private final AtomicBoolean removed = new AtomicBoolean();
    private volatile boolean detached;
    private volatile String stopTrace;
    private volatile boolean stillRuns;

    /** {@code run} is the number that Python gave this start. */
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

    /** Drops requests and errors from now on: this start is to end. */
    void detach() {
        detached = true;
    }

    /** Removes the connector's own metrics, once: a later start may have others with the same names. */
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
     * Whether the plugin's object runs, and does not know that it has failed, because it returned too many task configs.
     * Kafka's worker does not stop it.
     */
    boolean stillRuns() {
        return stillRuns;
    }

    /** Returns the trace of what {@code stop} threw, or null. */
    String stopTrace() {
        return stopTrace;
    }

    private void report(String what, String trace) {
        if (!detached) {
            events.ofConnector(name, run, what, trace);
        }
    }

    @Override
    public void onStartup(String connector) {
        // `started` says so
    }

    @Override
    public void onPause(String connector) {
        // the connector's actor says so
    }

    @Override
    public void onResume(String connector) {
        // the connector's actor says so
    }

    @Override
    public void onStop(String connector) {
        // the connector's actor says so
    }

    @Override
    public void onShutdown(String connector) {
        // the connector's actor says so
    }

    @Override
    public void onDeletion(String connector) {
        // the herder's business
    }

    @Override
    public void onRestart(String connector) {
        // the herder's business
    }
}
