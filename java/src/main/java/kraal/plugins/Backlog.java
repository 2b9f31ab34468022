package kraal.plugins;

import java.util.Map;
import org.apache.kafka.clients.consumer.internals.SubscriptionState;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;

/**
 * The lag of a sink's consumer according to its latest fetches, computed without requests.
 *
 * @param records the number of offsets between positions and high watermarks, regardless of open transactions
 * @param partitions the number of assigned partitions
 * @param paused the number of paused partitions
 */
record Backlog(long records, int partitions, int paused) {
    /** Computes the backlog of a consumer. Thread-safe: the consumer changes the state under the same lock. */
    static Backlog of(SubscriptionState state) {
        synchronized (state) {
            long records = 0;
            int partitions = 0;
            int paused = 0;
            for (TopicPartition partition : state.assignedPartitions()) {
                partitions++;
                paused += state.isPaused(partition) ? 1 : 0;
                Long lag = state.partitionLag(partition, IsolationLevel.READ_UNCOMMITTED); // null if position or high watermark is unknown
                records += lag == null ? 0 : Math.max(0, lag);
            }
            return new Backlog(records, partitions, paused);
        }
    }

    /** Returns the backlog as the detail of an event. */
    Map<String, Object> detail() {
        return Map.of("records", records, "partitions", partitions, "paused", paused);
    }
}
