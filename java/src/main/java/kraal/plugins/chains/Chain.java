package kraal.plugins.chains;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.ReentrantLock;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.runtime.ConnectMetrics;
import org.apache.kafka.connect.runtime.ConnectorConfig;
import org.apache.kafka.connect.runtime.TransformationChain;
import org.apache.kafka.connect.runtime.TransformationStage;
import org.apache.kafka.connect.runtime.errors.ErrorHandlingMetrics;
import org.apache.kafka.connect.runtime.errors.Operation;
import org.apache.kafka.connect.runtime.errors.ProcessingContext;
import org.apache.kafka.connect.runtime.errors.RetryWithToleranceOperator;
import org.apache.kafka.connect.runtime.errors.Stage;
import org.apache.kafka.connect.runtime.errors.ToleranceType;
import org.apache.kafka.connect.runtime.isolation.LoaderSwap;
import org.apache.kafka.connect.runtime.isolation.Plugins;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.util.ConnectorTaskId;

/**
 * The transforms and converters of one task of a Python connector. Processes one batch at a time.
 *
 * <p>A failed record is returned as a fault, which Python handles. {@code T} is the type of a record before the first
 * step, {@code R} the type of the transforms' records.
 */
public abstract class Chain<T, R extends ConnectRecord<R>> implements AutoCloseable {
    final Converter keyConverter;
    final Converter valueConverter;
    final HeaderConverter headerConverter;
    final TransformationChain<T, R> transforms;
    private final Plugins plugins;
    private final RetryWithToleranceOperator<T> retries;
    private final CountingMetrics counts;
    private final ReentrantLock busy = new ReentrantLock();
    private volatile boolean closing;
    private boolean closed;

    /** Creates the plugins; {@code config} contains the keys of transforms, predicates, converters and retries. */
    Chain(Plugins plugins, ConnectMetrics metrics, ConnectorTaskId id, Map<String, String> config) {
        this.plugins = plugins;
        counts = new CountingMetrics(id, metrics);
        List<AutoCloseable> converters = new ArrayList<>();
        try (LoaderSwap swap = plugins.withClassLoader(plugins.delegatingLoader())) {
            ConnectorConfig connectorConfig = new ConnectorConfig(plugins, config);
            retries = new RetryWithToleranceOperator<>(
                connectorConfig.errorRetryTimeout(), connectorConfig.errorMaxDelayInMillis(), ToleranceType.ALL, Time.SYSTEM, counts);
            keyConverter = plugins.newConverter(
                connectorConfig, ConnectorConfig.KEY_CONVERTER_CLASS_CONFIG, ConnectorConfig.KEY_CONVERTER_VERSION_CONFIG);
            converters.add(keyConverter::close);
            valueConverter = plugins.newConverter(
                connectorConfig, ConnectorConfig.VALUE_CONVERTER_CLASS_CONFIG, ConnectorConfig.VALUE_CONVERTER_VERSION_CONFIG);
            converters.add(valueConverter::close);
            headerConverter = plugins.newHeaderConverter(
                connectorConfig, ConnectorConfig.HEADER_CONVERTER_CLASS_CONFIG, ConnectorConfig.HEADER_CONVERTER_VERSION_CONFIG);
            converters.add(headerConverter);
            List<TransformationStage<R>> stages = connectorConfig.transformationStages(plugins, id, metrics);
            transforms = new TransformationChain<>(stages, retries);
        } catch (RuntimeException | Error e) {
            counts.close();
            converters.forEach(converter -> Utils.closeQuietly(converter, "converter"));
            throw e;
        }
    }

    /** Creates the chain of a source or a sink. */
    public static Chain<?, ?> of(
        String kind, Plugins plugins, ConnectMetrics metrics, ConnectorTaskId id, Map<String, String> config) {
        return "sink".equals(kind)
            ? new SinkChain(plugins, metrics, id, config)
            : new SourceChain(plugins, metrics, id, config);
    }

    /** Processes a batch; {@code frames.py} describes the frames. */
    final Frame process(Frame request) throws Exception {
        busy.lock();
        try {
            checkOpen();
            counts.failures = 0;
            counts.retries = 0;
            Frame response = processBatch(request);
            response.head().put("failures", counts.failures);
            response.head().put("retries", counts.retries);
            return response;
        } finally {
            busy.unlock();
            closeIfDue();
        }
    }

    /** Processes the records of a batch, and returns the response. */
    abstract Frame processBatch(Frame request) throws Exception;

    /** Aborts retries, and closes the plugins immediately or after the current batch. */
    @Override
    public void close() {
        closing = true;
        retries.triggerStop();
        closeIfDue();
    }

    private void closeIfDue() {
        if (!closing || !busy.tryLock()) {
            return;
        }
        try {
            if (!closed) {
                closed = true;
                Utils.closeQuietly(transforms, "transformation chain");
                Utils.closeQuietly(retries, "retry operator");
                Utils.closeQuietly(headerConverter, "header converter");
                Utils.closeQuietly(keyConverter, "key converter");
                Utils.closeQuietly(valueConverter, "value converter");
            }
        } finally {
            busy.unlock();
        }
    }

    /** Throws if the task has ended, so that the remaining records are not processed. */
    final void checkOpen() {
        if (closing) {
            throw new IllegalStateException("the task has ended");
        }
    }

    /** Runs one step of a record with retries, using the class loader of the plugin. */
    final <V> V step(ProcessingContext<T> context, Stage stage, Object plugin, Operation<V> operation) {
        return retries.execute(context, () -> inLoader(plugin, operation), stage, plugin.getClass());
    }

    final <V> V inLoader(Object plugin, Operation<V> operation) throws Exception {
        try (LoaderSwap swap = plugins.withClassLoader(plugin.getClass().getClassLoader())) {
            return operation.call();
        }
    }

    /** Describes the failure of a record in the form of Python's {@code Fault}. */
    static Map<String, Object> fault(ProcessingContext<?> context, String topic) {
        Throwable error = context.error();
        Map<String, Object> fault = new LinkedHashMap<>();
        fault.put("stage", context.stage().name());
        fault.put("class_name", context.executingClass().getName());
        fault.put("exception", error.getClass().getName());
        fault.put("message", error.getMessage());
        fault.put("stack", Utils.stackTrace(error).stripTrailing());
        fault.put("topic", topic);
        return fault;
    }

    /** Counts the operator's failures and retries, which Python adds to its own metrics. */
    private static final class CountingMetrics extends ErrorHandlingMetrics {
        private long failures;
        private long retries;

        CountingMetrics(ConnectorTaskId id, ConnectMetrics metrics) {
            super(id, metrics);
        }

        @Override
        public void recordFailure() {
            failures++;
            super.recordFailure();
        }

        @Override
        public void recordRetry() {
            retries++;
            super.recordRetry();
        }
    }
}
