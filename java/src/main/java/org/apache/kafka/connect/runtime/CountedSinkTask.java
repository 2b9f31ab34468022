package org.apache.kafka.connect.runtime;

import java.util.List;
import java.util.function.Function;
import java.util.function.Supplier;
import kraal.plugins.ledger.CountedChain;
import kraal.plugins.ledger.CountedConsumer;
import kraal.plugins.ledger.CountedReporter;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.internals.Plugin;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.runtime.errors.ErrorHandlingMetrics;
import org.apache.kafka.connect.runtime.errors.ErrorReporter;
import org.apache.kafka.connect.runtime.errors.RetryWithToleranceOperator;
import org.apache.kafka.connect.runtime.errors.WorkerErrantRecordReporter;
import org.apache.kafka.connect.runtime.isolation.LoaderSwap;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;
import org.apache.kafka.connect.storage.ClusterConfigState;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.storage.StatusBackingStore;
import org.apache.kafka.connect.util.ConnectorTaskId;

/** Kafka's sink task, which counts its records. The consumer has the counts. */
class CountedSinkTask extends WorkerSinkTask {
    private final Consumer<byte[], byte[]> consumer;

    public CountedSinkTask(
        ConnectorTaskId id, SinkTask task, TaskStatus.Listener statusListener, TargetState initialState,
        WorkerConfig workerConfig, ClusterConfigState configState, ConnectMetrics connectMetrics,
        Plugin<Converter> keyConverter, Plugin<Converter> valueConverter, ErrorHandlingMetrics errorMetrics,
        Plugin<HeaderConverter> headerConverter,
        TransformationChain<ConsumerRecord<byte[], byte[]>, SinkRecord> transformationChain,
        Consumer<byte[], byte[]> consumer, ClassLoader loader, Time time,
        RetryWithToleranceOperator<ConsumerRecord<byte[], byte[]>> retries,
        WorkerErrantRecordReporter errantRecordReporter, StatusBackingStore statusBackingStore,
        Supplier<List<ErrorReporter<ConsumerRecord<byte[], byte[]>>>> errorReporters,
        TaskPluginsMetadata pluginsMetadata, Function<ClassLoader, LoaderSwap> loaderSwapper) {
        super(
            id, task, statusListener, initialState, workerConfig, configState, connectMetrics, keyConverter,
            valueConverter, errorMetrics, headerConverter,
            new CountedChain<>(transformationChain, retries, CountedConsumer.countsOf(consumer)::drop), consumer, loader,
            time, retries, errantRecordReporter, statusBackingStore,
            () -> CountedReporter.count(errorReporters.get(), CountedConsumer.countsOf(consumer)), pluginsMetadata,
            loaderSwapper);
        this.consumer = consumer;
    }

    /** Called after each put. */
    @Override
    protected void recordBatch(int size) {
        super.recordBatch(size);
        CountedConsumer.countsOf(consumer).deliver(size);
    }
}
