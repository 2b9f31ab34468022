package kraal.plugins;

import java.util.function.Predicate;
import org.apache.kafka.connect.runtime.TopicStatus;
import org.apache.kafka.connect.storage.MemoryStatusBackingStore;

/**
 * The topics that the tasks of each connector have reported since the last start of one of these tasks.
 *
 * <p>Kafka's tasks look up the topic of every record here, so a lookup must be as fast as in Kafka's own store.
 */
final class UsedTopics extends MemoryStatusBackingStore {
    private final Predicate<TopicStatus> report;

    /** {@code report} returns whether a running task has reported the topic; if false, the topic is not stored. */
    UsedTopics(Predicate<TopicStatus> report) {
        this.report = report;
    }

    @Override
    public void put(TopicStatus status) {
        if (report.test(status)) {
            super.put(status);
        }
    }

    /** Makes the tasks of a connector report their topics again. */
    void forget(String connector) {
        getAllTopics(connector).forEach(status -> deleteTopic(connector, status.topic()));
    }
}
