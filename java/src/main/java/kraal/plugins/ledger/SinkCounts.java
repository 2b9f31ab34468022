package kraal.plugins.ledger;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import kraal.plugins.ledger.Segment.RangeStart;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * The counts of the records of a sink task. Records are counted when {@code put} has returned and a committed offset
 * covers all records that the same poll has returned from the partition.
 *
 * <p>If the consumer moves to another position or loses a partition, records that are not committed are not counted,
 * because they are read again. Methods without a thread in their description run on the task's thread.
 */
public final class SinkCounts implements RecordCounts {
    private static final int MAX_SEGMENTS = 100;
    private final Map<TopicPartition, Partition> partitions = new HashMap<>();
    /** The segments of the records that the next put receives. */
    private final List<Segment> undelivered = new ArrayList<>();
    /** Committed segments that were not taken. */
    private final Map<TopicPartition, Deque<Segment>> committed = new HashMap<>();
    /** The segment of the latest record that was dropped or has failed; null if it may be another one. */
    private Segment latest;
    /** Whether the next put may receive records of segments that were removed. */
    private boolean hasStrayRecords;

    /** A partition that is assigned to the task. */
    private static final class Partition {
        long position;
        RangeStart reason = RangeStart.RESUMED;
        /** Segments that are not committed, in the order of their offsets. */
        final Deque<Segment> segments = new ArrayDeque<>();

        Partition(long position) {
            this.position = position;
        }

        void add(Segment segment) {
            segments.add(segment);
            if (segments.size() >= MAX_SEGMENTS) {
                compact();
            }
        }

        /** Joins small segments. If they cannot be joined, because the task has moved often, forgets the oldest one. */
        private void compact() {
            List<Segment> all = new ArrayList<>(segments);
            segments.clear();
            long limit = 4 * all.stream().mapToLong(segment -> segment.counts.read).sum() / MAX_SEGMENTS;
            for (Segment segment : all) {
                Segment previous = segments.peekLast();
                if (previous != null && previous.isFollowedBy(segment)
                    && previous.counts.read + segment.counts.read <= limit) {
                    previous.append(segment);
                    previous.settle();
                } else {
                    segments.add(segment);
                }
            }
            if (segments.size() >= MAX_SEGMENTS) {
                segments.remove();
                segments.element().reason = RangeStart.RESUMED;
            }
        }
    }

    /** Records the position of a partition, which was assigned to the task or whose position the task has changed. */
    public synchronized void moveTo(TopicPartition id, long offset) {
        Partition partition = partitions.get(id);
        if (partition == null) {
            partitions.put(id, new Partition(offset));
        } else if (partition.position != offset) {
            moveTo(partition, offset, RangeStart.RESUMED);
        }
    }

    private void moveTo(Partition partition, long offset, RangeStart reason) {
        forget(partition.segments.stream().filter(segment -> segment.end > offset).toList());
        partition.segments.removeIf(segment -> segment.end > offset);
        partition.position = offset;
        partition.reason = reason;
    }

    /** Records that partitions are no longer assigned to the task. */
    public synchronized void remove(Collection<TopicPartition> ids) {
        for (TopicPartition id : ids) {
            Partition partition = partitions.remove(id);
            if (partition != null) {
                forget(partition.segments);
            }
        }
    }

    private void forget(Collection<Segment> segments) {
        hasStrayRecords |= undelivered.removeAll(segments);
        latest = null;
    }

    /** Counts records that the consumer has returned. */
    public synchronized <K, V> void read(ConsumerRecords<K, V> records) {
        latest = null;
        for (TopicPartition id : records.partitions()) {
            List<ConsumerRecord<K, V>> ofPartition = records.records(id);
            if (!ofPartition.isEmpty()) {
                read(id, ofPartition.get(0).offset(), ofPartition.get(ofPartition.size() - 1).offset() + 1, ofPartition.size());
            }
        }
    }

    private void read(TopicPartition id, long first, long end, int count) {
        Partition partition = partitions.computeIfAbsent(id, absent -> new Partition(first));
        if (first < partition.position) { // the position was out of range, so the consumer has reset it
            moveTo(partition, first, RangeStart.SKIPPED);
        }
        Segment segment = new Segment(id, partition.position, end, partition.reason, count);
        partition.position = end;
        partition.reason = RangeStart.NEXT;
        partition.add(segment);
        undelivered.add(segment);
    }

    /** Counts a record of the latest poll that a transform has dropped. */
    public void drop(ConsumerRecord<?, ?> record) {
        Segment segment = findLatest(record.topic(), record.partition());
        if (segment != null) {
            segment.counts.dropped++;
        }
    }

    /**
     * Counts a record of the latest poll that was not converted or transformed. {@code letter} is the dead letter; null
     * without a dead letter topic.
     */
    public synchronized void fail(ConsumerRecord<?, ?> record, Future<?> letter) {
        Segment segment = findLatest(record.topic(), record.partition());
        if (segment != null) {
            segment.fail(letter);
        }
    }

    private Segment findLatest(String topic, int partition) {
        if (latest == null || latest.partition.partition() != partition || !latest.partition.topic().equals(topic)) {
            latest = null;
            for (Segment segment : undelivered) {
                if (segment.partition.partition() == partition && segment.partition.topic().equals(topic)) {
                    latest = segment;
                }
            }
        }
        return latest;
    }

    /**
     * Counts a record that the plugin has reported as failed. Thread-safe. A record that is committed already remains
     * counted as written. If the plugin has changed the record's topic, any record may have failed.
     */
    public synchronized void report(ConsumerRecord<?, ?> record, Future<?> letter) {
        Partition partition = partitions.get(new TopicPartition(record.topic(), record.partition()));
        if (partition == null) {
            partitions.values().forEach(each -> each.segments.forEach(segment -> segment.counts.isWrittenKnown = false));
            return;
        }
        for (Segment segment : partition.segments) {
            if (segment.start <= record.offset() && record.offset() < segment.end) {
                segment.report(record.offset(), letter);
                return;
            }
        }
    }

    /** Records that {@code put} has returned; {@code size} is the number of records that it has received. */
    public synchronized void deliver(int size) {
        latest = null;
        if (!undelivered.isEmpty()) {
            long expected = undelivered.stream().mapToLong(Segment::expected).sum();
            undelivered.forEach(Segment::deliver);
            undelivered.get(0).counts.written += size - expected; // not 0 if records were lost or repeated
            if (hasStrayRecords) {
                undelivered.forEach(segment -> segment.counts.isWrittenKnown = false);
            }
            undelivered.clear();
        }
        hasStrayRecords = false;
    }

    /** Records that offsets were committed. */
    public synchronized void commit(Map<TopicPartition, OffsetAndMetadata> offsets) {
        offsets.forEach((id, offset) -> {
            Partition partition = partitions.get(id);
            while (partition != null && !partition.segments.isEmpty() && partition.segments.element().isDelivered
                && partition.segments.element().end <= offset.offset()) {
                commit(partition.segments.remove());
            }
        });
    }

    private void commit(Segment segment) {
        Deque<Segment> segments = committed.computeIfAbsent(segment.partition, absent -> new ArrayDeque<>());
        Segment previous = segments.peekLast();
        if (previous != null && previous.isFollowedBy(segment) && previous.settle() && segment.settle()) {
            previous.append(segment);
        } else {
            segments.add(segment);
        }
    }

    /** Leaves segments with dead letters that are not acknowledged yet, and later segments of the same partition. */
    @Override
    public synchronized Map<String, Object> take() {
        Counts known = new Counts();
        Counts unknown = new Counts();
        List<List<Object>> ranges = new ArrayList<>();
        committed.values().removeIf(segments -> {
            while (!segments.isEmpty() && segments.element().settle()) {
                Segment segment = segments.remove();
                (segment.counts.isWrittenKnown ? known : unknown).add(segment.counts);
                ranges.add(List.of(
                    segment.partition.topic(), segment.partition.partition(), segment.start, segment.end,
                    segment.reason.name()));
            }
            return segments.isEmpty();
        });
        return Counts.describe(List.of(known, unknown), "ranges", ranges);
    }
}
