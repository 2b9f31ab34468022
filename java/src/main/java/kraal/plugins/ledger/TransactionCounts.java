package kraal.plugins.ledger;

import java.util.Map;
import java.util.concurrent.atomic.LongAdder;
import org.apache.kafka.connect.source.SourceRecord;

/**
 * The counts of the records of a source task with exactly-once support, which are counted when their transaction is
 * committed. If the task aborts a transaction, Kafka commits the offsets without the records, which are then dropped.
 *
 * <p>Methods without a thread in their description run on the task's thread.
 */
public final class TransactionCounts implements RecordCounts {
    private final LongAdder acknowledged = new LongAdder();
    private SourceEntry transaction = new SourceEntry();
    /** The number of records of the latest poll that were neither dispatched nor skipped yet. */
    private long remaining;
    private long dispatched;
    private boolean isAborted;
    private SourceEntry committed = new SourceEntry();

    /** Counts records that the task has returned. */
    public void read(int count) {
        transaction.counts.read += count;
        remaining = count;
    }

    /** Counts a record that was not sent because it has failed or because a transform has dropped it. */
    public void skip(boolean isFailed) {
        remaining--;
        if (isFailed) {
            transaction.counts.tolerated++;
        } else {
            transaction.counts.dropped++;
        }
    }

    /** Counts a record that was dispatched to the producer. */
    public void dispatch(SourceRecord record) {
        remaining--;
        dispatched++;
        transaction.offsets.put(record.sourcePartition(), record.sourceOffset());
    }

    /** Records that all records of the latest poll were dispatched or skipped. */
    public void completeBatch() {
        remaining = 0;
    }

    /** Counts a record that the broker has acknowledged. Thread-safe. */
    public void acknowledge() {
        acknowledged.increment();
    }

    /** Records that the task has aborted the transaction. */
    public void abort() {
        isAborted = true;
    }

    /** Records that the transaction is committed, with all records that were dispatched or skipped before. */
    public void commit() {
        Counts counts = transaction.counts;
        counts.read -= remaining;
        counts.written = acknowledged.sumThenReset();
        if (isAborted) {
            counts.written = 0;
            counts.dropped += dispatched;
        }
        synchronized (this) {
            committed.add(transaction);
        }
        transaction = new SourceEntry();
        transaction.counts.read = remaining;
        dispatched = 0;
        isAborted = false;
    }

    @Override
    public synchronized Map<String, Object> take() {
        Map<String, Object> taken = committed.describe();
        committed = new SourceEntry();
        return taken;
    }
}
