package kraal.plugins.ledger;

import java.time.Duration;
import java.util.Collection;
import java.util.Map;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetCommitCallback;
import org.apache.kafka.common.TopicPartition;

/** The consumer of a sink task. Counts the records that it returns, and records its positions and committed offsets. */
public final class CountedConsumer<K, V> extends KafkaConsumer<K, V> {
    private final SinkCounts counts = CountedTasks.register(new SinkCounts());

    public CountedConsumer(Map<String, Object> configs) {
        super(configs);
    }

    /** Returns the counts of the task that uses a consumer. */
    public static SinkCounts countsOf(Consumer<?, ?> consumer) {
        return ((CountedConsumer<?, ?>) consumer).counts;
    }

    @Override
    public ConsumerRecords<K, V> poll(Duration timeout) {
        ConsumerRecords<K, V> records = super.poll(timeout);
        counts.read(records);
        return records;
    }

    /** Kafka's task calls this for each partition that is assigned to it. */
    @Override
    public long position(TopicPartition partition) {
        long position = super.position(partition);
        counts.moveTo(partition, position);
        return position;
    }

    @Override
    public void seek(TopicPartition partition, long offset) {
        super.seek(partition, offset);
        counts.moveTo(partition, offset);
    }

    @Override
    public void commitSync(Map<TopicPartition, OffsetAndMetadata> offsets) {
        super.commitSync(offsets);
        counts.commit(offsets);
    }

    @Override
    public void commitAsync(Map<TopicPartition, OffsetAndMetadata> offsets, OffsetCommitCallback callback) {
        super.commitAsync(offsets, (committed, error) -> {
            if (error == null) {
                counts.commit(committed);
            }
            callback.onComplete(committed, error);
        });
    }

    @Override
    public void subscribe(Collection<String> topics, ConsumerRebalanceListener listener) {
        super.subscribe(topics, new RemovalListener(listener));
    }

    @Override
    public void subscribe(Pattern pattern, ConsumerRebalanceListener listener) {
        super.subscribe(pattern, new RemovalListener(listener));
    }

    /** Removes partitions from the counts after Kafka's task has committed their last offsets. */
    private final class RemovalListener implements ConsumerRebalanceListener {
        private final ConsumerRebalanceListener listener;

        RemovalListener(ConsumerRebalanceListener listener) {
            this.listener = listener;
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            listener.onPartitionsAssigned(partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            try {
                listener.onPartitionsRevoked(partitions);
            } finally {
                counts.remove(partitions);
            }
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            try {
                listener.onPartitionsLost(partitions);
            } finally {
                counts.remove(partitions);
            }
        }
    }
}
