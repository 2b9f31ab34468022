package kraal.plugins.ledger;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.ToLongFunction;
import org.apache.kafka.connect.source.SourceRecord;

/**
 * The counts of the records of a source task without exactly-once support. The records of a poll are counted when all of
 * them, and those of earlier polls, are acknowledged and their offsets are stored.
 *
 * <p>Kafka commits the offset of each source partition up to the first record that is not acknowledged, so the number of
 * records that Kafka still tracks for the partition tells which polls are acknowledged. Methods without a thread in their
 * description run on the task's thread.
 */
public final class SourceCounts implements RecordCounts {
    private static final int MAX_MARKS = 100;
    private final Map<Map<String, ?>, Partition> partitions = new HashMap<>();
    /** Polls that are not acknowledged; the last one may not be dispatched to the producer yet. */
    private final Deque<Batch> batches = new ArrayDeque<>();
    private Batch current = new Batch(List.of());
    /** The partition of the latest record. */
    private Partition latest;
    /** Records that were acknowledged after the latest mark. */
    private SourceEntry acknowledged = new SourceEntry();
    /** Records that were acknowledged before a mark, whose offsets may not be stored yet. */
    private final Deque<SourceEntry> marked = new ArrayDeque<>();
    private SourceEntry committed = new SourceEntry();

    /** A source partition with records that are not acknowledged. */
    private static final class Partition {
        final Map<String, ?> id;
        /** The number of records that were dispatched to the producer. */
        long dispatched;
        /** The share of the latest poll that has records of the partition. */
        Share share;

        Partition(Map<String, ?> id) {
            this.id = id;
        }
    }

    /** The records of a poll in one partition. */
    private static final class Share {
        final Partition partition;
        final Batch batch;
        /** {@link Partition#dispatched} after the last record. */
        long end;
        Map<String, ?> offset;

        Share(Partition partition, Batch batch) {
            this.partition = partition;
            this.batch = batch;
        }
    }

    /** The records of a poll. */
    private static final class Batch {
        final List<SourceRecord> records;
        final SourceEntry entry = new SourceEntry();
        final List<Share> shares = new ArrayList<>();
        boolean isDispatched;
        /** The number of records that the broker has rejected; changed by the producer's thread. */
        long rejected;

        Batch(List<SourceRecord> records) {
            this.records = records;
            entry.counts.read = records.size();
        }

        boolean contains(SourceRecord record) {
            return records.stream().anyMatch(each -> each == record); // equal records may be different ones
        }

        SourceEntry complete() {
            entry.counts.written -= rejected;
            entry.counts.tolerated += rejected;
            shares.forEach(share -> entry.offsets.put(share.partition.id, share.offset));
            return entry;
        }
    }

    /** Counts records that the task has returned. */
    public synchronized void read(List<SourceRecord> records) {
        current = new Batch(records);
        batches.add(current);
    }

    /** Counts a record that was not sent because it has failed or because a transform has dropped it. */
    public void skip(boolean isFailed) {
        if (isFailed) {
            current.entry.counts.tolerated++;
        } else {
            current.entry.counts.dropped++;
        }
    }

    /** Counts a record that was dispatched to the producer. */
    public void dispatch(SourceRecord record) {
        Map<String, ?> id = record.sourcePartition();
        if (latest == null || (latest.id != id && !Objects.equals(latest.id, id))) {
            latest = partitions.computeIfAbsent(id, Partition::new);
        }
        if (latest.share == null || latest.share.batch != current) {
            latest.share = new Share(latest, current);
            current.shares.add(latest.share);
        }
        latest.dispatched++;
        latest.share.end = latest.dispatched;
        latest.share.offset = record.sourceOffset();
        current.entry.counts.written++;
    }

    /** Records that all records of the latest poll were dispatched or skipped. */
    public void completeBatch() {
        current.isDispatched = true;
    }

    /** Counts a record that the broker has rejected, and whose error is tolerated. Thread-safe. */
    public synchronized void reject(SourceRecord record) {
        for (Batch batch : batches) {
            if (batch.contains(record)) {
                batch.rejected++;
                return;
            }
        }
        batches.forEach(batch -> batch.entry.counts.isWrittenKnown = false); // the task has changed its list
    }

    /**
     * Finds the polls that are acknowledged. {@code countTracked} returns the number of records of a source partition that
     * Kafka still tracks; the offsets of all others must be part of the next commit.
     */
    public synchronized void acknowledge(ToLongFunction<Map<String, ?>> countTracked) {
        while (!batches.isEmpty() && isAcknowledged(batches.element(), countTracked)) {
            Batch batch = batches.remove();
            acknowledged.add(batch.complete());
            for (Share share : batch.shares) {
                if (share.partition.share == share) { // no later poll has records of the partition
                    partitions.remove(share.partition.id);
                    latest = null;
                }
            }
        }
    }

    private static boolean isAcknowledged(Batch batch, ToLongFunction<Map<String, ?>> countTracked) {
        return batch.isDispatched && batch.shares.stream().allMatch(
            share -> share.end <= share.partition.dispatched - countTracked.applyAsLong(share.partition.id));
    }

    /**
     * Returns a mark for {@link #commit}. Must be called before Kafka decides which offsets to store. Thread-safe.
     */
    public synchronized Object mark() {
        if (!acknowledged.isEmpty()) {
            marked.add(acknowledged);
            acknowledged = new SourceEntry();
        }
        if (marked.size() > MAX_MARKS) {
            SourceEntry earliest = marked.remove();
            marked.element().addEarlier(earliest);
        }
        return marked.peekLast();
    }

    /** Records that the offsets of all records before a mark are stored. Thread-safe. */
    public synchronized void commit(Object mark) {
        while (marked.contains(mark)) { // compares by identity
            committed.add(marked.remove());
        }
    }

    @Override
    public synchronized Map<String, Object> take() {
        Map<String, Object> taken = committed.describe();
        committed = new SourceEntry();
        return taken;
    }
}
