package kraal.plugins;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.connect.runtime.TopicStatus;
import org.junit.jupiter.api.Test;

/** Tests for {@link UsedTopics}. */
final class UsedTopicsTest {
    private final List<String> reportedTopics = new ArrayList<>();
    private boolean running = true;
    private final UsedTopics topics = new UsedTopics(status -> running && reportedTopics.add(status.topic()));

    @Test
    void topicOfAnEndedTaskIsUnknown() {
        running = false;
        use("any", "one");
        assertNull(topics.getTopic("any", "one"));
    }

    @Test
    void topicsAreReportedAgainAfterATaskStart() {
        use("any", "one");
        use("any", "two");
        use("other", "one");
        assertNotNull(topics.getTopic("any", "two"));
        topics.forget("any");
        topics.forget("unknown");
        assertNull(topics.getTopic("any", "one"));
        assertNull(topics.getTopic("any", "two"));
        assertNotNull(topics.getTopic("other", "one"));
        use("any", "one");
        assertEquals(List.of("one", "two", "one", "one"), reportedTopics);
    }

    /** Looks up a topic as Kafka's tasks do for each record. */
    private void use(String connector, String topic) {
        if (topics.getTopic(connector, topic) == null) {
            topics.put(new TopicStatus(topic, connector, 0, 0L));
        }
    }
}
