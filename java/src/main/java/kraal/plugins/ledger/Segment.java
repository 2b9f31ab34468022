package kraal.plugins.ledger;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.common.TopicPartition;

/** Consecutive records of a partition that a sink's consumer has returned, and their counts. Not thread-safe. */
final class Segment {
    private static final int MAX_LETTERS = 1000;
    final TopicPartition partition;
    final long start;
    /** The offset after the last record. */
    long end;
    RangeStart reason;
    final Counts counts = new Counts();
    /** Whether {@code put} has returned for all records. */
    boolean isDelivered;
    /** The number of records that were not converted or transformed. */
    private long failed;
    /** The offsets of the records that the plugin has reported; empty after the delivery. */
    private final Set<Long> reportedOffsets = new HashSet<>();
    /** Dead letters that may not be acknowledged yet. */
    private final List<Future<?>> letters = new ArrayList<>();

    /** Why a segment starts at its offset; as in {@code kraal/ledger/counts.py}. */
    enum RangeStart { NEXT, RESUMED, SKIPPED }

    Segment(TopicPartition partition, long start, long end, RangeStart reason, long read) {
        this.partition = partition;
        this.start = start;
        this.end = end;
        this.reason = reason;
        counts.read = read;
    }

    /** Returns the number of records that {@code put} must receive. */
    long expected() {
        return counts.read - counts.dropped - failed;
    }

    void deliver() {
        counts.written += expected();
        isDelivered = true;
        reportedOffsets.clear();
    }

    /** Counts a record that was not converted or transformed; {@code letter} is null without a dead letter topic. */
    void fail(Future<?> letter) {
        failed++;
        skip(letter);
    }

    /** Counts a record that the plugin has reported, unless it was reported before in an earlier attempt of the put. */
    void report(long offset, Future<?> letter) {
        if (isDelivered || reportedOffsets.add(offset)) {
            counts.written--;
            skip(letter);
        }
    }

    private void skip(Future<?> letter) {
        if (letter == null) {
            counts.tolerated++;
            return;
        }
        letters.add(letter);
        if (letters.size() % MAX_LETTERS == 0) {
            settle();
        }
    }

    /** Counts the dead letters that were acknowledged; returns whether none is pending. A failed one is not counted. */
    boolean settle() {
        letters.removeIf(letter -> {
            if (!letter.isDone()) {
                return false;
            }
            try {
                letter.get();
                counts.deadLetters++;
            } catch (ExecutionException | CancellationException e) {
                // the record is neither written nor in the dead letter topic
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                return false;
            }
            return true;
        });
        return letters.isEmpty();
    }

    /** Returns whether the segments can be one. */
    boolean isFollowedBy(Segment next) {
        return isDelivered && next.isDelivered && next.reason == RangeStart.NEXT && end == next.start
            && counts.isWrittenKnown == next.counts.isWrittenKnown;
    }

    void append(Segment next) {
        end = next.end;
        counts.add(next.counts);
        failed += next.failed;
        letters.addAll(next.letters);
    }
}
