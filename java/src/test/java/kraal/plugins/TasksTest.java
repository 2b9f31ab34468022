package kraal.plugins;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.junit.jupiter.api.Test;

/** Tests for the start of tasks. */
final class TasksTest {
    private final Events events = new Events();
    private final List<Runnable> acceptedWork = new ArrayList<>();
    private boolean isExhausted = true;
    private final Tasks tasks = new Tasks(null, new ConcurrentHashMap<>(), null, events, work -> {
        if (isExhausted) {
            throw new OutOfMemoryError("unable to create native thread");
        }
        acceptedWork.add(work);
    });

    @Test
    void startCanBeRetriedAfterThreadExhaustion() throws Exception {
        assertThrows(OutOfMemoryError.class, () -> start(1));
        isExhausted = false;
        start(2);
        assertEquals(List.of(), events.take(0));
        assertEquals(1, acceptedWork.size());
    }

    @Test
    void taskWaitsForAnEarlierRunThatIsStarting() throws Exception {
        isExhausted = false;
        start(1);
        start(2);
        assertEquals("waiting", events.take(0).get(0).get("what"));
        assertEquals(1, acceptedWork.size());
    }

    @Test
    void obsoleteRunDoesNotReplaceALaterRun() throws Exception {
        isExhausted = false;
        start(2);
        start(1);
        assertEquals(List.of(), events.take(0));
        assertEquals(1, acceptedWork.size());
        assertEquals(true, tasks.end("name", 0, 1), "the obsolete run has not started");
    }

    @Test
    void cancelledRunThatIsStartingHasNotEnded() throws Exception {
        isExhausted = false;
        assertEquals(true, tasks.hasEnded("name", 0));
        start(1);
        assertEquals(false, tasks.end("name", 0, 1));
        assertEquals(false, tasks.hasEnded("name", 0));
    }

    private void start(long run) throws Exception {
        tasks.start("name", 0, run, Map.of(), Map.of(), true);
    }
}
