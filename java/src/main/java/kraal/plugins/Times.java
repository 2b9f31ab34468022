package kraal.plugins;

import java.util.List;
import org.apache.kafka.common.metrics.CompoundStat;
import org.apache.kafka.common.metrics.MetricConfig;

/**
 * The count and total duration of an operation of a task. Attached to a sensor of Kafka's worker, whose own averages
 * cover only the sample windows. Not published as a metric. Thread-safe.
 */
final class Times implements CompoundStat {
    private long count;
    private double totalMs;

    @Override
    public synchronized void record(MetricConfig config, double tookMs, long nowMs) {
        count++;
        totalMs += tookMs;
    }

    @Override
    public List<NamedMeasurable> stats() {
        return List.of();
    }

    /** Returns the count, and the total in milliseconds. */
    synchronized List<Number> soFar() {
        return List.of(count, totalMs);
    }
}
