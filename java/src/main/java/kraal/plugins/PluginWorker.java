package kraal.plugins;

import java.lang.reflect.Field;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import kraal.plugins.chains.Chain;
import kraal.plugins.chains.ChainServer;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.connect.connector.policy.ConnectorClientConfigOverridePolicy;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.json.JsonConverterConfig;
import org.apache.kafka.connect.runtime.ConnectorConfig;
import org.apache.kafka.connect.runtime.Herder;
import org.apache.kafka.connect.runtime.SinkConnectorConfig;
import org.apache.kafka.connect.runtime.SourceConnectorConfig;
import org.apache.kafka.connect.runtime.TargetState;
import org.apache.kafka.connect.runtime.Worker;
import org.apache.kafka.connect.runtime.WorkerConfig;
import org.apache.kafka.connect.runtime.WorkerConnector;
import org.apache.kafka.connect.runtime.distributed.DistributedConfig;
import org.apache.kafka.connect.runtime.isolation.LoaderSwap;
import org.apache.kafka.connect.runtime.standalone.StandaloneConfig;
import org.apache.kafka.connect.storage.KafkaOffsetBackingStore;
import org.apache.kafka.connect.storage.OffsetBackingStore;
import org.apache.kafka.connect.util.ConnectUtils;
import org.apache.kafka.connect.util.ConnectorTaskId;
import org.apache.kafka.connect.util.SharedTopicAdmin;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.core.config.Configurator;

/**
 * Runs Java plugins with Kafka's own {@link Worker}; Kraal's actors take the role of Kafka's herder.
 *
 * <p>Python calls the public methods on any thread. Configs and composite results are JSON.
 */
public final class PluginWorker {
    private static final int MAX_PLUGIN_VALUES = 10_000;
    private static final long PROGRESS_INTERVAL_NS = 250_000_000L;
    private final Map<String, String> pluginProperties;
    private final WorkerPlugins plugins;
    private final Catalog catalog;
    private final ConfigProviders providers;
    private final Events events = new Events();
    private final StandaloneOffsets standaloneOffsets = new StandaloneOffsets(events);
    private final PluginNumbers numbers = new PluginNumbers(MAX_PLUGIN_VALUES);
    private final Map<String, RunningConnector> connectors = new ConcurrentHashMap<>();
    private volatile Worker worker;
    private volatile ConnectorClientConfigOverridePolicy policy;
    private volatile Tasks tasks;
    private volatile Pulse pulse;
    /** The time of the last progress report of the tasks, by {@link System#nanoTime}. Used by the event thread only. */
    private long lastProgress = System.nanoTime() - PROGRESS_INTERVAL_NS;
    private final ChainServer chains = new ChainServer();

    /**
     * Scans {@code plugin.path}, which may take minutes, unless {@code scan} is the result of {@link #scan} in an earlier
     * process. Threads that the caller starts later can load plugin classes by name.
     */
    PluginWorker(Map<String, String> pluginProperties, List<Map<String, String>> scan) {
        this.pluginProperties = pluginProperties;
        plugins = WorkerPlugins.of(pluginProperties, scan);
        // Inherited by new threads, so that configs can name classes in plugin.path. Source: AbstractConnectCli.
        Thread.currentThread().setContextClassLoader(plugins.delegatingLoader());
        catalog = new Catalog(plugins);
        providers = new ConfigProviders(plugins);
    }

    /** Returns a JSON array of all plugins; see {@code kraal/java_plugins/catalog.py} for the format. */
    public String describe() {
        return Json.text(catalog.describe());
    }

    /** Returns the result of the scan as a JSON array, which later processes can use to skip the scan. */
    public String scan() {
        return Json.text(plugins.scan());
    }

    /** Sets the log4j level of a logger and its descendants; {@code root} means all loggers. */
    public void setLogLevel(String namespace, String level) {
        Configurator.setAllLevels("root".equals(namespace) ? "" : namespace, Level.toLevel(level));
    }

    // --- Calls of connectors that are not started ---------------------------------------------------------

    /** Returns the result of the connector's {@code validate} as a JSON array of {@code ConfigValueInfo}. */
    public String validate(String className, String version, String config) throws Exception {
        return Json.text(catalog.validate(className, version, Json.strings(config)));
    }

    /** Returns {@code SUPPORTED}, {@code UNSUPPORTED}, or null if the connector returns null. */
    public String exactlyOnceSupport(String className, String version, String config) throws Exception {
        return catalog.exactlyOnceSupport(className, version, Json.strings(config));
    }

    /** Returns {@code SUPPORTED}, {@code UNSUPPORTED}, or null if the connector returns null. */
    public String transactionBoundaries(String className, String version, String config) throws Exception {
        return catalog.transactionBoundaries(className, version, Json.strings(config));
    }

    /** Calls a connector's {@code alterOffsets} with a JSON array of pairs; returns its result. */
    public boolean alterOffsets(String className, String version, boolean source, String config, String pairs)
        throws Exception {
        return source
            ? catalog.alterOffsets(className, version, Json.strings(config), Json.pairs(pairs))
            : catalog.alterSinkOffsets(className, version, Json.strings(config), Json.pairs(pairs));
    }

    // --- Config providers and override policies -----------------------------------------------------------

    /** Returns {@code {"data": {...}, "ttl": ...}}, the values of a config provider; see {@link ConfigProviders}. */
    public String configValues(long number, String className, String params, String path, String keys) {
        return Json.text(providers.values(number, className, Json.strings(params), path, Json.texts(keys)));
    }

    /** Returns the override policy's result as a JSON array of {@code ConfigValueInfo}; see {@link ClientOverrides}. */
    public String checkOverrides(String request, String overrides) throws Exception {
        return Json.text(
            ClientOverrides.validate(plugins, policy, Json.strings(request), Json.strings(overrides)));
    }

    /** Closes the config providers. */
    void close() {
        providers.close();
    }

    // --- The worker -----------------------------------------------------------------------------------------

    /**
     * Starts Kafka's worker with the properties of a distributed or a standalone worker. The brokers must be reachable.
     * Afterwards, the process exits unless {@link #take} is called at least every {@code silenceMs} milliseconds.
     */
    public synchronized void start(String properties, boolean standalone, long silenceMs) throws Exception {
        if (worker != null) {
            return;
        }
        Map<String, String> props = Json.strings(properties);
        props.putAll(pluginProperties);
        WorkerConfig config = standalone ? new StandaloneConfig(props) : new DistributedConfig(props);
        OffsetBackingStore offsets = standalone ? standaloneOffsets : offsetsTopic(config);
        try {
            offsets.configure(config);
            ConnectorClientConfigOverridePolicy newPolicy = plugins.newPlugin(
                config.getString(WorkerConfig.CONNECTOR_CLIENT_POLICY_CLASS_CONFIG), config,
                ConnectorClientConfigOverridePolicy.class);
            String id = props.getOrDefault("client.id", "kraal") + "-plugins";
            Worker newWorker = new Worker(id, Time.SYSTEM, plugins, config, offsets, newPolicy);
            Tasks newTasks = new Tasks(newWorker, plugins, events);
            Field herder = Worker.class.getDeclaredField("herder");
            herder.setAccessible(true);
            herder.set(newWorker, Partial.of(Herder.class, Map.of(
                "statusBackingStore", none -> newTasks.topics(), "taskStatus", none -> null)));
            newWorker.start();
            tasks = newTasks;
            policy = newPolicy;
            pulse = new Pulse(silenceMs);
            worker = newWorker;
        } catch (Exception | LinkageError e) {
            Utils.closeQuietly(offsets::stop, "offsets");
            throw e;
        }
    }

    /** Returns a store of offsets in the worker's topic; {@code stop} closes its clients. */
    private OffsetBackingStore offsetsTopic(WorkerConfig config) {
        String base = ConnectUtils.clientIdBase(config);
        Map<String, Object> adminConfig = new HashMap<>(config.originals());
        ConnectUtils.addMetricsContextProperties(adminConfig, config, config.kafkaClusterId());
        adminConfig.put(AdminClientConfig.CLIENT_ID_CONFIG, base + "plugins-admin");
        SharedTopicAdmin admin = new SharedTopicAdmin(adminConfig);
        return new KafkaOffsetBackingStore(
            admin,
            () -> base,
            plugins.newInternalConverter(
                true, JsonConverter.class.getName(), Map.of(JsonConverterConfig.SCHEMAS_ENABLE_CONFIG, "false"))) {
            @Override
            public void stop() {
                try {
                    super.stop();
                } finally {
                    admin.close();
                }
            }
        };
    }

    /** Completes the request of a {@code load} or {@code store} event with an error unless it is null, else with the pairs. */
    public void answerOffsets(long request, String pairs, String error) {
        standaloneOffsets.complete(request, Json.textPairs(pairs), error);
    }

    /**
     * Waits for events up to a timeout, and returns them as a JSON array. Called repeatedly by one thread. Tasks report
     * their progress at most four times a second; more frequent reports of a busy task would make each call return
     * immediately.
     */
    public String take(long waitMs) throws InterruptedException {
        if (pulse != null) {
            pulse.recordHeartbeat();
            long now = System.nanoTime();
            if (now - lastProgress >= PROGRESS_INTERVAL_NS) {
                lastProgress = now;
                tasks.progress();
            }
        }
        return Json.text(events.take(waitMs));
    }

    /**
     * Returns the metrics of this process as a JSON object; see {@code kraal/java_plugins/metrics.py} for the format.
     * Plugins have {@code waitMs} milliseconds to compute their metrics. Does not count as a heartbeat of the worker.
     */
    public String measure(long waitMs) throws InterruptedException {
        Metrics metrics = worker.metrics().metrics();
        Map<String, Object> all = new HashMap<>();
        all.put("tasks", tasks.pairRunsWithMetrics(Measurements.ofTasks(metrics)));
        all.put("jvm", Measurements.ofJvm());
        all.put("own", numbers.take(metrics, waitMs));
        return Json.text(all);
    }

    // --- Connectors -----------------------------------------------------------------------------------------

    /**
     * Starts a connector and waits until it is running; returns null, or the stack trace of the error. {@code run}
     * identifies the events of this start. An earlier start of the same connector is stopped.
     */
    public String startConnector(String name, long run, String config) throws Exception {
        RunningConnector connector =
            new RunningConnector(name, run, events, worker.metrics().connectorPluginMetrics(name));
        RunningConnector previous = connectors.put(name, connector);
        if (previous != null) {
            previous.detach();
            worker.stopAndAwaitConnector(name);
            previous.started.complete("The connector was started again before it had started");
        }
        worker.startConnector(name, Json.strings(config), connector, connector, TargetState.STARTED, connector);
        String trace = connector.started.get();
        if (trace != null) {
            stopConnector(name, run);
        }
        return trace;
    }

    /** Returns {@code {"configs": [...]}}, the configs of a running connector's tasks, or {@code {"trace": ...}}. */
    public String taskConfigs(String name, String config) {
        try {
            Map<String, String> props = Json.strings(config);
            ConnectorConfig connectorConfig = worker.isSinkConnector(name)
                ? new SinkConnectorConfig(plugins, props)
                : new SourceConnectorConfig(plugins, props, worker.isTopicCreationEnabled());
            List<Map<String, String>> configs = worker.connectorTaskConfigs(name, connectorConfig);
            return Json.text(Map.of("configs", configs));
        } catch (Exception | LinkageError e) {
            return Json.text(Map.of("trace", Utils.stackTrace(e)));
        }
    }

    /**
     * Stops a connector, waiting up to five seconds like Kafka. Returns null, or the stack trace of the exception that the
     * connector's {@code stop} threw.
     */
    public String stopConnector(String name, long run) throws ReflectiveOperationException {
        RunningConnector connector = connectors.get(name);
        if (connector == null || connector.run != run || !connectors.remove(name, connector)) {
            return null;
        }
        connector.detach();
        WorkerConnector workerConnector = workerConnector(name);
        worker.stopAndAwaitConnector(name);
        connector.started.complete("The connector was stopped before it had started"); // unblocks startConnector
        if (connector.stillRuns() && workerConnector != null) {
            try (LoaderSwap swap = plugins.withClassLoader(workerConnector.loader())) {
                workerConnector.connector().stop();
            } catch (Exception | LinkageError e) {
                return Utils.stackTrace(e);
            }
        }
        return connector.stopTrace();
    }

    private WorkerConnector workerConnector(String name) throws ReflectiveOperationException {
        Field field = Worker.class.getDeclaredField("connectors");
        field.setAccessible(true);
        return (WorkerConnector) ((Map<?, ?>) field.get(worker)).get(name);
    }

    // --- Tasks ----------------------------------------------------------------------------------------------

    /** Starts a task without waiting; its events, identified by {@code run}, report the outcome. */
    public void startTask(
        String connector, int task, long run, String connectorConfig, String taskConfig, boolean source)
        throws Exception {
        tasks.start(
            connector, task, run, Json.strings(connectorConfig), Json.strings(taskConfig), source);
    }

    /** Pauses or resumes a task if this run still exists. */
    public void setPaused(String connector, int task, long run, boolean paused) throws Exception {
        tasks.setPaused(connector, task, run, paused);
    }

    /** Requests that a task stop; the event {@code ended} follows. */
    public void requestStop(String connector, int task, long run) throws Exception {
        tasks.requestStop(connector, task, run);
    }

    /** Removes a task, cancelling it if it has not ended; returns whether it had ended or been removed before. */
    public boolean endTask(String connector, int task, long run) throws Exception {
        return tasks.end(connector, task, run);
    }

    /** Returns whether all threads of cancelled runs of the task have ended. */
    public boolean hasEnded(String connector, int task) throws Exception {
        return tasks.hasEnded(connector, task);
    }

    // --- Transforms and converters of connectors in Python --------------------------------------------------

    /**
     * Creates the transforms and converters of a run; {@code kind} is "source" or "sink".
     * Returns the address to which Python sends their batches; see {@link ChainServer}.
     */
    public String openChain(String kind, String connector, int task, long run, String config)
        throws Exception {
        Chain<?, ?> chain =
            Chain.of(kind, plugins, worker.metrics(), new ConnectorTaskId(connector, task), Json.strings(config));
        return Json.text(chains.add(run, chain));
    }

    /** Closes the transforms and converters of a run, if they still exist. */
    public void closeChain(long run) {
        chains.remove(run);
    }
}
