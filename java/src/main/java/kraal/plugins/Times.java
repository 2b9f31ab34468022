package kraal.plugins;

import java.util.List;
import org.apache.kafka.common.metrics.CompoundStat;
import org.apache.kafka.common.metrics.MetricConfig;

/**
 * How often a task did something, and how long that took in all. Joins one of the sensors that Kafka's worker records
 * times with, whose own averages are those of its windows. Publishes no metric. Thread-safe.
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

    /** Returns the number, and the sum in milliseconds. */
    synchronized List<Number> soFar() {
        return List.of(count, totalMs);
    }
}
