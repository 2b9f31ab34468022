package kraal.plugins.ledger;

import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;

/** The producer of a source task with exactly-once support. Records that the task has aborted a transaction. */
public final class CountedProducer<K, V> extends KafkaProducer<K, V> {
    private final TransactionCounts counts = CountedTasks.register(new TransactionCounts());

    public CountedProducer(Map<String, Object> configs) {
        super(configs);
    }

    /** Returns the counts of the task that uses this producer. */
    public TransactionCounts counts() {
        return counts;
    }

    @Override
    public void abortTransaction() {
        super.abortTransaction();
        counts.abort();
    }
}
