package org.apache.kafka.connect.runtime;

import java.util.List;
import java.util.Map;
import java.util.concurrent.Executor;
import java.util.function.Function;
import java.util.function.Supplier;
import kraal.plugins.ledger.CountedProducer;
import kraal.plugins.ledger.TransactionCounts;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.internals.Plugin;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.runtime.errors.ErrorHandlingMetrics;
import org.apache.kafka.connect.runtime.errors.ErrorReporter;
import org.apache.kafka.connect.runtime.errors.ProcessingContext;
import org.apache.kafka.connect.runtime.errors.RetryWithToleranceOperator;
import org.apache.kafka.connect.runtime.isolation.LoaderSwap;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.apache.kafka.connect.storage.CloseableOffsetStorageReader;
import org.apache.kafka.connect.storage.ClusterConfigState;
import org.apache.kafka.connect.storage.ConnectorOffsetBackingStore;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.storage.OffsetStorageWriter;
import org.apache.kafka.connect.storage.StatusBackingStore;
import org.apache.kafka.connect.util.ConnectorTaskId;
import org.apache.kafka.connect.util.TopicAdmin;
import org.apache.kafka.connect.util.TopicCreationGroup;

/** Kafka's source task with exactly-once support, which counts its records. */
class CountedExactlyOnceSourceTask extends ExactlyOnceWorkerSourceTask {
    private final TransactionCounts counts;
    /** Whether the latest record was not transformed or converted because of an error. */
    private boolean isFailed;

    public CountedExactlyOnceSourceTask(
        ConnectorTaskId id, SourceTask task, TaskStatus.Listener statusListener, TargetState initialState,
        Plugin<Converter> keyConverter, Plugin<Converter> valueConverter, Plugin<HeaderConverter> headerConverter,
        TransformationChain<SourceRecord, SourceRecord> transformationChain, Producer<byte[], byte[]> producer,
        TopicAdmin admin, Map<String, TopicCreationGroup> topicGroups, CloseableOffsetStorageReader offsetReader,
        OffsetStorageWriter offsetWriter, ConnectorOffsetBackingStore offsetStore, WorkerConfig workerConfig,
        ClusterConfigState configState, ConnectMetrics connectMetrics, ErrorHandlingMetrics errorMetrics,
        ClassLoader loader, Time time, RetryWithToleranceOperator<SourceRecord> retries,
        StatusBackingStore statusBackingStore, SourceConnectorConfig sourceConfig, Executor closeExecutor,
        Runnable preProducerCheck, Runnable postProducerCheck,
        Supplier<List<ErrorReporter<SourceRecord>>> errorReporters, TaskPluginsMetadata pluginsMetadata,
        Function<ClassLoader, LoaderSwap> loaderSwapper) {
        super(
            id, task, statusListener, initialState, keyConverter, valueConverter, headerConverter, transformationChain,
            producer, admin, topicGroups, offsetReader, offsetWriter, offsetStore, workerConfig, configState,
            connectMetrics, errorMetrics, loader, time, retries, statusBackingStore, sourceConfig, closeExecutor,
            preProducerCheck, postProducerCheck, errorReporters, pluginsMetadata, loaderSwapper);
        counts = ((CountedProducer<?, ?>) producer).counts();
    }

    @Override
    protected List<SourceRecord> poll() throws InterruptedException {
        List<SourceRecord> records = super.poll();
        if (records != null) {
            counts.read(records.size());
        }
        return records;
    }

    @Override
    protected ProducerRecord<byte[], byte[]> convertTransformedRecord(
        ProcessingContext<SourceRecord> context, SourceRecord record) {
        ProducerRecord<byte[], byte[]> converted = super.convertTransformedRecord(context, record);
        isFailed = context.failed();
        return converted;
    }

    @Override
    protected void recordDropped(SourceRecord record) {
        counts.skip(isFailed);
        super.recordDropped(record);
    }

    @Override
    protected void recordDispatched(SourceRecord record) {
        counts.dispatch(record);
        super.recordDispatched(record);
    }

    @Override
    protected void batchDispatched() {
        counts.completeBatch();
        super.batchDispatched();
    }

    @Override
    protected void recordSent(
        SourceRecord record, ProducerRecord<byte[], byte[]> producerRecord, RecordMetadata metadata) {
        counts.acknowledge();
        super.recordSent(record, producerRecord, metadata);
    }

    /** Called after each commit. */
    @Override
    protected void commitSourceTask() {
        counts.commit();
        super.commitSourceTask();
    }
}
