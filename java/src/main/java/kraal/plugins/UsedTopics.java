package kraal.plugins;

import java.util.function.Predicate;
import org.apache.kafka.connect.runtime.TopicStatus;
import org.apache.kafka.connect.storage.MemoryStatusBackingStore;

/**
 * The topics that tasks of each connector have reported since one of them started last.
 *
 * <p>Kafka's tasks look up the topic of every record here, so a look-up costs no more than in Kafka's own store.
 */
final class UsedTopics extends MemoryStatusBackingStore {
    private final Predicate<TopicStatus> report;

    /** {@code report} returns whether a running task has reported the topic; otherwise it is asked again. */
    UsedTopics(Predicate<TopicStatus> report) {
        this.report = report;
    }

    @Override
    public void put(TopicStatus status) {
        if (report.test(status)) {
            super.put(status);
        }
    }

    /** Has tasks of a connector report their topics again. */
    void forget(String connector) {
        getAllTopics(connector).forEach(each -> deleteTopic(connector, each.topic()));
    }
}
