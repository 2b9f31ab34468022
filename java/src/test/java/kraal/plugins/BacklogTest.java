package kraal.plugins;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.lang.reflect.Method;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.internals.AutoOffsetResetStrategy;
import org.apache.kafka.clients.consumer.internals.SubscriptionState;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.internals.LogContext;
import org.apache.kafka.connect.util.ConnectorTaskId;
import org.junit.jupiter.api.Test;

/** Tests for {@link Backlog} and its reports. */
final class BacklogTest {
    private static final TopicPartition PARTITION_0 = new TopicPartition("t", 0);
    private static final TopicPartition PARTITION_1 = new TopicPartition("t", 1);
    private final SubscriptionState state =
        new SubscriptionState(new LogContext(), AutoOffsetResetStrategy.EARLIEST);
    private final Events events = new Events();
    private final RunningTask task =
        new RunningTask(new ConnectorTaskId("name", 2), 9, false, events, Map::of);

    @Test
    void backlogIsTheTotalLagOfPartitionsWithPositions() throws ReflectiveOperationException {
        assertEquals(new Backlog(0, 0, 0), Backlog.of(state));
        state.assignFromUser(Set.of(PARTITION_0, PARTITION_1));
        assertEquals(new Backlog(0, 2, 0), Backlog.of(state), "no position is known yet");
        state.seek(PARTITION_0, 3);
        assertEquals(new Backlog(0, 2, 0), Backlog.of(state), "no end is known yet");
        setHighWatermark(PARTITION_0, 10);
        state.pause(PARTITION_1);
        assertEquals(new Backlog(7, 2, 1), Backlog.of(state));
        state.requestOffsetReset(PARTITION_0);
        assertEquals(new Backlog(0, 2, 1), Backlog.of(state), "the position is unknown again");
    }

    /** Updates the state like the consumer after a fetch response. */
    private void setHighWatermark(TopicPartition partition, long end) throws ReflectiveOperationException {
        Method update =
            SubscriptionState.class.getDeclaredMethod("updateHighWatermark", TopicPartition.class, long.class);
        update.setAccessible(true);
        update.invoke(state, partition, end);
    }

    @Test
    void nonemptyBacklogIsReportedEveryFiveSeconds() throws InterruptedException {
        task.reportBacklog(new Backlog(0, 0, 0), 0);
        assertEquals(List.of(), events.take(0), "nothing has changed");
        task.reportBacklog(new Backlog(7, 1, 0), 0);
        task.reportBacklog(new Backlog(8, 1, 0), 4_999_999_999L);
        task.reportBacklog(new Backlog(7, 1, 0), 5_000_000_000L);
        task.reportBacklog(new Backlog(0, 1, 0), 10_000_000_000L);
        task.reportBacklog(new Backlog(0, 1, 0), 15_000_000_000L);
        assertEquals(
            List.of(7L, 7L, 0L),
            events.take(0).stream().map(event -> ((Map<?, ?>) event.get("detail")).get("records")).toList());
    }
}
