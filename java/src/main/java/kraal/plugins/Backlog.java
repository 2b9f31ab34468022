package kraal.plugins;

import java.util.Map;
import org.apache.kafka.clients.consumer.internals.SubscriptionState;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;

/**
 * How far a sink's consumer is behind the end of its partitions, as of its latest fetches; sends no request.
 *
 * @param records offsets between the positions and the high watermarks, which an open transaction does not hold back
 * @param partitions that have been assigned
 * @param paused partitions, which are not fetched
 */
record Backlog(long records, int partitions, int paused) {
    /** Any thread: the consumer's own changes the state under the same lock. */
    static Backlog of(SubscriptionState state) {
        synchronized (state) {
            long records = 0;
            int partitions = 0;
            int paused = 0;
            for (TopicPartition each : state.assignedPartitions()) {
                partitions++;
                paused += state.isPaused(each) ? 1 : 0;
                Long lag = state.partitionLag(each, IsolationLevel.READ_UNCOMMITTED); // null until both are known
                records += lag == null ? 0 : Math.max(0, lag);
            }
            return new Backlog(records, partitions, paused);
        }
    }

    /** Returns the detail of an event. */
    Map<String, Object> detail() {
        return Map.of("records", records, "partitions", partitions, "paused", paused);
    }
}
