package kraal.plugins;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.Collections;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import org.apache.kafka.connect.runtime.TargetState;
import org.apache.kafka.connect.runtime.TopicStatus;
import org.apache.kafka.connect.runtime.Worker;
import org.apache.kafka.connect.storage.ClusterConfigState;
import org.apache.kafka.connect.storage.StatusBackingStore;
import org.apache.kafka.connect.util.ConnectorTaskId;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The tasks of a worker. A task whose thread has not ended cannot start again: two of them would share its resources. */
final class Tasks {
    private static final Logger LOG = LoggerFactory.getLogger(Tasks.class);
    private static final long WATCH_MS = 250;
    private final Worker worker;
    private final Events events;
    private final ConcurrentMap<ConnectorTaskId, Object> known;
    private final Map<ConnectorTaskId, RunningTask> running = new ConcurrentHashMap<>();
    private final Map<ConnectorTaskId, Object> lingering = new ConcurrentHashMap<>();
    private volatile long heardNanos = System.nanoTime();

    /** Watches that Python is heard of at least every {@code silenceMs}. */
    Tasks(Worker worker, Events events, long silenceMs) throws ReflectiveOperationException {
        this.worker = worker;
        this.events = events;
        known = tasksOf(worker);
        Thread watch = new Thread(() -> watch(silenceMs), "kraal-watch");
        watch.setDaemon(true);
        watch.start();
    }

    @SuppressWarnings("unchecked")
    private static ConcurrentMap<ConnectorTaskId, Object> tasksOf(Worker worker) throws ReflectiveOperationException {
        Field field = Worker.class.getDeclaredField("tasks");
        field.setAccessible(true);
        return (ConcurrentMap<ConnectorTaskId, Object>) field.get(worker);
    }

    /** Records that Python lives. */
    void heard() {
        heardNanos = System.nanoTime();
    }

    /** Has every task report how far it has come. */
    void progress() {
        running.values().forEach(RunningTask::progress);
    }

    /** Returns the store that tasks tell of the topics that they use. */
    StatusBackingStore topics() {
        return Partial.of(StatusBackingStore.class, Map.of(
            "getTopic", given -> known((String) given[0], (String) given[1]),
            "put", given -> {
                if (given[0] instanceof TopicStatus status) {
                    RunningTask task = running.get(new ConnectorTaskId(status.connector(), status.task()));
                    if (task != null) {
                        task.uses(status.topic());
                    }
                }
                return null;
            }));
    }

    /** Returns the status of a topic if every task of the connector has reported it: each reports its own. */
    private TopicStatus known(String connector, String topic) {
        TopicStatus found = null;
        for (RunningTask task : running.values()) {
            if (task.id.connector().equals(connector)) {
                if (!task.knows(topic)) {
                    return null;
                }
                found = new TopicStatus(topic, task.id, 0L);
            }
        }
        return found;
    }

    /** Starts a task; what is left of an earlier run is cancelled, and must have ended. */
    void start(
        String connector, int task, long run, Map<String, String> config, Map<String, String> own, boolean source)
        throws ReflectiveOperationException {
        ConnectorTaskId id = new ConnectorTaskId(connector, task);
        RunningTask older = running.get(id);
        if (older != null) {
            stop(connector, task, older.run, 0);
        }
        if (!isOver(id)) {
            events.ofTask(id, run, "waiting", "an earlier run of the task, which was cancelled, has not ended");
            return;
        }
        RunningTask made = new RunningTask(id, run, source, events);
        running.put(id, made);
        ClusterConfigState state = new ClusterConfigState(
            0, null, Map.of(connector, task + 1), Map.of(connector, config),
            Map.of(connector, TargetState.STARTED), Map.of(id, own), Map.of(), Map.of(), Map.of(),
            Collections.emptySet(), Collections.emptySet());
        boolean started = source
            ? startSource(id, state, config, own, made)
            : worker.startSinkTask(id, state, config, own, made, TargetState.STARTED);
        if (started) {
            made.measure(worker.metrics());
        } else {
            running.remove(id, made);
        }
    }

    private boolean startSource(
        ConnectorTaskId id, ClusterConfigState state, Map<String, String> config, Map<String, String> own,
        RunningTask made) {
        if (worker.config().exactlyOnceSourceEnabled()) {
            Runnable nothing = () -> { }; // the Python worker has claimed the task before it starts it
            return worker.startExactlyOnceSourceTask(
                id, state, config, own, made, TargetState.STARTED, nothing, nothing);
        }
        return worker.startSourceTask(id, state, config, own, made, TargetState.STARTED);
    }

    void setPaused(String connector, int task, long run, boolean paused) throws ReflectiveOperationException {
        ConnectorTaskId id = new ConnectorTaskId(connector, task);
        Object found = found(id, run);
        if (found != null) {
            method(found, "transitionTo", TargetState.class)
                .invoke(found, paused ? TargetState.PAUSED : TargetState.STARTED);
        }
    }

    /** Stops a task; after {@code waitMs} it is cancelled: it commits nothing more, and its thread is left behind. */
    boolean stop(String connector, int task, long run, long waitMs) throws ReflectiveOperationException {
        ConnectorTaskId id = new ConnectorTaskId(connector, task);
        Object found = found(id, run);
        if (found == null) {
            return true;
        }
        method(found, "stop").invoke(found);
        boolean ended = (Boolean) method(found, "awaitStop", long.class).invoke(found, waitMs);
        if (!ended) {
            LOG.warn("Task {} has not stopped in {} ms and is cancelled", id, waitMs);
            lingering.put(id, found);
            method(found, "cancel").invoke(found);
        }
        method(found, "removeMetrics").invoke(found);
        known.remove(id, found);
        running.remove(id);
        return ended;
    }

    private Object found(ConnectorTaskId id, long run) {
        RunningTask task = running.get(id);
        return task == null || task.run != run ? null : known.get(id);
    }

    private boolean isOver(ConnectorTaskId id) throws ReflectiveOperationException {
        Object left = lingering.get(id);
        if (left != null && !(Boolean) method(left, "awaitStop", long.class).invoke(left, 0L)) {
            return false;
        }
        lingering.remove(id);
        return true;
    }

    private void watch(long silenceMs) {
        try {
            while (true) {
                Thread.sleep(WATCH_MS);
                if (System.nanoTime() - heardNanos > silenceMs * 1_000_000 && !running.isEmpty()) {
                    LOG.error("Cancelling all tasks: the Python worker has been silent for {} ms", silenceMs);
                    for (RunningTask task : Set.copyOf(running.values())) {
                        stop(task.id.connector(), task.id.task(), task.run, 0);
                        events.ofTask(task.id, task.run, "cancelled", null);
                    }
                }
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } catch (ReflectiveOperationException e) {
            LOG.error("Tasks are no longer watched", e);
        }
    }

    private static Method method(Object task, String name, Class<?>... types) throws NoSuchMethodException {
        Method found = null;
        for (Class<?> type = task.getClass(); found == null && type != null; type = type.getSuperclass()) {
            try {
                found = type.getDeclaredMethod(name, types);
            } catch (NoSuchMethodException e) {
                // perhaps a superclass declares it
            }
        }
        if (found == null) {
            throw new NoSuchMethodException(name);
        }
        found.setAccessible(true);
        return found;
    }
}
