package kraal.plugins;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.connect.util.ConnectorTaskId;

/** A queue of the events that connectors and tasks report to Python, read in batches by one reader. Thread-safe. */
final class Events {
    private final LinkedBlockingQueue<Map<String, Object>> queue = new LinkedBlockingQueue<>();

    void addConnectorEvent(String name, long run, String what, Object trace) {
        Map<String, Object> event = new LinkedHashMap<>();
        event.put("connector", name);
        event.put("run", run);
        event.put("what", what);
        event.put("detail", trace);
        queue.add(event);
    }

    void addTaskEvent(ConnectorTaskId id, long run, String what, Object detail) {
        Map<String, Object> event = new LinkedHashMap<>();
        event.put("connector", id.connector());
        event.put("task", id.task());
        event.put("run", run);
        event.put("what", what);
        event.put("detail", detail);
        queue.add(event);
    }

    void addOffsetsEvent(long run, String what, Object detail) {
        Map<String, Object> event = new LinkedHashMap<>();
        event.put("run", run);
        event.put("what", what);
        event.put("detail", detail);
        queue.add(event);
    }

    /** Waits for an event up to a timeout, and returns all queued events. */
    List<Map<String, Object>> take(long waitMs) throws InterruptedException {
        List<Map<String, Object>> all = new ArrayList<>();
        Map<String, Object> first = queue.poll(waitMs, TimeUnit.MILLISECONDS);
        if (first != null) {
            all.add(first);
            queue.drainTo(all);
        }
        return all;
    }
}
