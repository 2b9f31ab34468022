package kraal.plugins;

import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.Executor;
import java.util.concurrent.Executors;
import kraal.plugins.ledger.CountedTasks;
import org.apache.kafka.clients.consumer.internals.SubscriptionState;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.runtime.TargetState;
import org.apache.kafka.connect.runtime.TopicStatus;
import org.apache.kafka.connect.runtime.Worker;
import org.apache.kafka.connect.storage.ClusterConfigState;
import org.apache.kafka.connect.storage.StatusBackingStore;
import org.apache.kafka.connect.util.ConnectorTaskId;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The tasks of a worker. A task whose thread has not ended cannot start again, because two runs would share resources.
 *
 * <p>Calls for one task are mutually exclusive. Kafka's {@link Worker} stops and pauses tasks by connector with a common
 * timeout; Kraal's actors do so by task, so this class calls private methods of the worker.
 */
final class Tasks {
    private static final Logger LOG = LoggerFactory.getLogger(Tasks.class);
    /** The methods of Kafka's {@code WorkerSinkTask} that call methods of the plugin. */
    private static final Set<String> SINK_STEPS =
        Set.of("deliverMessages", "openPartitions", "closePartitions", "closeAllPartitions");
    private final Worker worker;
    private final WorkerPlugins plugins;
    private final Events events;
    private final ConcurrentMap<ConnectorTaskId, Object> workerTasks;
    private final Map<ConnectorTaskId, RunningTask> runningTasks = new ConcurrentHashMap<>();
    private final Map<ConnectorTaskId, Object> lingeringTasks = new ConcurrentHashMap<>();
    /** The runs whose plugins are being created, which may take arbitrarily long. */
    private final Map<ConnectorTaskId, RunningTask> startingTasks = new ConcurrentHashMap<>();
    /** The tasks in {@code startingTasks} that were requested to stop. */
    private final Set<ConnectorTaskId> stopRequests = ConcurrentHashMap.newKeySet();
    private final Executor starters;
    /** The number of the last requested run of each task. */
    private final Map<ConnectorTaskId, Long> latestRuns = new ConcurrentHashMap<>();
    private final Map<ConnectorTaskId, Object> locks = new ConcurrentHashMap<>();
    private final UsedTopics topics = new UsedTopics(this::reportTopic);

    Tasks(Worker worker, WorkerPlugins plugins, Events events) throws ReflectiveOperationException {
        this(worker, tasksOf(worker), plugins, events, Executors.newCachedThreadPool(work -> {
            Thread thread = new Thread(work, "kraal-start-task");
            thread.setDaemon(true);
            return thread;
        }));
    }

    /** {@code workerTasks} are the tasks of the worker; {@code starters} runs the start of each task. */
    Tasks(
        Worker worker, ConcurrentMap<ConnectorTaskId, Object> workerTasks, WorkerPlugins plugins, Events events,
        Executor starters) {
        this.worker = worker;
        this.workerTasks = workerTasks;
        this.plugins = plugins;
        this.events = events;
        this.starters = starters;
    }

    @SuppressWarnings("unchecked")
    private static ConcurrentMap<ConnectorTaskId, Object> tasksOf(Worker worker) throws ReflectiveOperationException {
        Field field = Worker.class.getDeclaredField("tasks");
        field.setAccessible(true);
        return (ConcurrentMap<ConnectorTaskId, Object>) field.get(worker);
    }

    /** Makes every task report its progress, its durations, whether it is busy, and a sink's backlog. */
    void progress() {
        runningTasks.values().forEach(task -> {
            try {
                task.reportProgress();
                task.reportTimes();
                task.reportCounts();
                Object workerTask = workerTasks.get(task.id);
                task.setBusy(workerTask != null && isBusy(task, workerTask));
                if (workerTask != null && !task.isSource) {
                    Object consumer = value(value(workerTask, "consumer"), "delegate"); // a field of KafkaConsumer
                    SubscriptionState state = (SubscriptionState) value(consumer, "subscriptions");
                    task.reportBacklog(Backlog.of(state), System.nanoTime());
                }
            } catch (ReflectiveOperationException | RuntimeException e) {
                LOG.warn("Failed to read the progress of task {}", task.id, e);
            }
        });
    }

    /**
     * Returns whether a task has records that are not yet sent or put, is committing, or is executing a method of its
     * sink, which may hang without records because Kafka also puts empty batches. A source that polls is not busy, because
     * it may be waiting for data.
     */
    private boolean isBusy(RunningTask task, Object workerTask) throws ReflectiveOperationException {
        return task.isSource
            ? value(workerTask, "toSend") != null
            : (Boolean) value(workerTask, "committing") || !((List<?>) value(workerTask, "messageBatch")).isEmpty()
                || task.isInside(SINK_STEPS);
    }

    /** Returns pairs of the run and the metrics of each task that has metrics. */
    List<List<Object>> pairRunsWithMetrics(Map<ConnectorTaskId, Map<String, Object>> metrics) {
        List<List<Object>> all = new ArrayList<>();
        runningTasks.forEach((id, task) -> {
            Map<String, Object> taskMetrics = metrics.get(id);
            if (taskMetrics != null) {
                all.add(List.of(task.run, taskMetrics));
            }
        });
        return all;
    }

    /** Returns the status store to which tasks report the topics that they use. */
    StatusBackingStore topics() {
        return topics;
    }

    private boolean reportTopic(TopicStatus status) {
        RunningTask task = runningTasks.get(new ConnectorTaskId(status.connector(), status.task()));
        if (task == null) {
            return false;
        }
        task.addTopic(status.topic());
        return true;
    }

    /**
     * Starts a task on a separate thread. Cancels an earlier run; if the thread of a cancelled run has not ended, only
     * reports the event {@code waiting}.
     */
    void start(
        String connector, int task, long run, Map<String, String> config, Map<String, String> taskConfig, boolean source)
        throws Exception {
        ConnectorTaskId id = new ConnectorTaskId(connector, task);
        synchronized (lockOf(id)) {
            Long latest = latestRuns.get(id);
            if (latest != null && latest > run) {
                return; // a late request that was meant for an exited process
            }
            latestRuns.put(id, run);
            RunningTask previous = runningTasks.get(id);
            if (previous != null) {
                end(id, previous, 0);
            }
            if (!isOver(id)) {
                events.addTaskEvent(id, run, "waiting", "an earlier run of the task, which was cancelled, has not ended");
                return;
            }
            topics.forget(connector);
            RunningTask newTask = new RunningTask(
                id, run, source, events, () -> Measurements.ofTask(worker.metrics().metrics(), id));
            runningTasks.put(id, newTask);
            startingTasks.put(id, newTask);
            try {
                starters.execute(() -> start(id, newTask, config, taskConfig, source));
            } catch (RuntimeException | Error e) { // no thread is available; a later start may succeed
                startingTasks.remove(id, newTask);
                runningTasks.remove(id, newTask);
                throw e;
            }
        }
    }

    private void start(
        ConnectorTaskId id, RunningTask newTask, Map<String, String> config, Map<String, String> taskConfig, boolean source) {
        ClusterConfigState state = new ClusterConfigState(
            0, null, Map.of(id.connector(), id.task() + 1), Map.of(id.connector(), config),
            Map.of(id.connector(), TargetState.STARTED), Map.of(id, taskConfig), Map.of(), Map.of(), Map.of(),
            Set.of(), Set.of());
        boolean started = false;
        try {
            started = CountedTasks.create(newTask::setCounts, () -> source
                ? plugins.startSource(() -> startSource(id, state, config, taskConfig, newTask))
                : worker.startSinkTask(id, state, config, taskConfig, newTask, TargetState.STARTED));
        } catch (Throwable e) {
            newTask.onFailure(id, e);
        }
        synchronized (lockOf(id)) {
            startingTasks.remove(id, newTask);
            boolean mustStop = stopRequests.remove(id);
            if (!started) {
                runningTasks.remove(id, newTask);
                return;
            }
            try {
                if (runningTasks.get(id) != newTask) {
                    end(id, newTask, 0);
                    return;
                }
                newTask.findSensors(worker.metrics());
                if (mustStop) {
                    call(worker, "stopTask", ConnectorTaskId.class, id);
                }
            } catch (Exception e) {
                LOG.warn("Failed to complete the start of task {}", id, e);
            }
        }
    }

    private boolean startSource(
        ConnectorTaskId id, ClusterConfigState state, Map<String, String> config, Map<String, String> taskConfig,
        RunningTask newTask) {
        if (worker.config().exactlyOnceSourceEnabled()) {
            Runnable check = () -> { // replaces the checks of Kafka's herder, because the Python worker has claimed the task
                if (runningTasks.get(id) != newTask) {
                    throw new ConnectException("The task was cancelled while it started");
                }
            };
            return worker.startExactlyOnceSourceTask(
                id, state, config, taskConfig, newTask, TargetState.STARTED, check, check);
        }
        return worker.startSourceTask(id, state, config, taskConfig, newTask, TargetState.STARTED);
    }

    void setPaused(String connector, int task, long run, boolean paused) throws Exception {
        ConnectorTaskId id = new ConnectorTaskId(connector, task);
        synchronized (lockOf(id)) {
            Object workerTask = findTask(id, run);
            if (workerTask != null) {
                call(workerTask, "transitionTo", TargetState.class, paused ? TargetState.PAUSED : TargetState.STARTED);
            }
        }
    }

    /** Requests that a task stop; the task then reports its end. Its offsets are no longer committed in the background. */
    void requestStop(String connector, int task, long run) throws Exception {
        ConnectorTaskId id = new ConnectorTaskId(connector, task);
        synchronized (lockOf(id)) {
            RunningTask startingTask = startingTasks.get(id);
            if (findTask(id, run) != null) {
                call(worker, "stopTask", ConnectorTaskId.class, id);
            } else if (startingTask != null && startingTask.run == run) {
                stopRequests.add(id);
            }
        }
    }

    /**
     * Removes a task, cancelling it and abandoning its thread if it has not ended. Returns whether it had ended or been
     * removed before.
     */
    boolean end(String connector, int task, long run) throws Exception {
        ConnectorTaskId id = new ConnectorTaskId(connector, task);
        synchronized (lockOf(id)) {
            RunningTask latest = runningTasks.get(id);
            return latest == null || latest.run != run || end(id, latest, 0);
        }
    }

    /** Returns whether all threads of cancelled runs of the task have ended. */
    boolean hasEnded(String connector, int task) throws Exception {
        ConnectorTaskId id = new ConnectorTaskId(connector, task);
        synchronized (lockOf(id)) {
            return isOver(id);
        }
    }

    private boolean end(ConnectorTaskId id, RunningTask task, long waitMs) throws Exception {
        runningTasks.remove(id, task);
        if (startingTasks.containsKey(id)) {
            return false; // the starting thread ends the task
        }
        Object workerTask = workerTasks.get(id);
        if (workerTask == null) {
            return true;
        }
        call(worker, "stopTask", ConnectorTaskId.class, id);
        Method await = method(Worker.class, "awaitStopTask", ConnectorTaskId.class, long.class);
        invoke(await, worker, id, waitMs); // cancels the task if it has not ended, and removes it and its metrics
        boolean ended = (Boolean) call(workerTask, "awaitStop", long.class, 0L);
        if (!ended) {
            lingeringTasks.put(id, workerTask);
        }
        return ended;
    }

    private Object findTask(ConnectorTaskId id, long run) {
        RunningTask task = runningTasks.get(id);
        return task == null || task.run != run ? null : workerTasks.get(id);
    }

    private boolean isOver(ConnectorTaskId id) throws Exception {
        if (startingTasks.containsKey(id)) {
            return false;
        }
        Object cancelled = lingeringTasks.get(id);
        if (cancelled != null && !(Boolean) call(cancelled, "awaitStop", long.class, 0L)) {
            return false;
        }
        lingeringTasks.remove(id);
        return true;
    }

    private Object lockOf(ConnectorTaskId id) {
        return locks.computeIfAbsent(id, absent -> new Object());
    }

    private static Object call(Object target, String name, Class<?> type, Object argument) throws Exception {
        return invoke(method(target.getClass(), name, type), target, argument);
    }

    private static Object invoke(Method method, Object target, Object... arguments) throws Exception {
        try {
            return method.invoke(target, arguments);
        } catch (InvocationTargetException e) {
            throw e.getCause() instanceof Exception cause ? cause : e;
        }
    }

    private static Object value(Object object, String name) throws ReflectiveOperationException {
        for (Class<?> type = object.getClass(); type != null; type = type.getSuperclass()) {
            try {
                Field field = type.getDeclaredField(name);
                field.setAccessible(true);
                return field.get(object);
            } catch (NoSuchFieldException e) {
                // may be declared by a superclass
            }
        }
        throw new NoSuchFieldException(name);
    }

    private static Method method(Class<?> subclass, String name, Class<?>... types) throws NoSuchMethodException {
        for (Class<?> type = subclass; type != null; type = type.getSuperclass()) {
            try {
                Method method = type.getDeclaredMethod(name, types);
                method.setAccessible(true);
                return method;
            } catch (NoSuchMethodException e) {
                // may be declared by a superclass
            }
        }
        throw new NoSuchMethodException(name);
    }
}
