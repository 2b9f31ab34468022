package kraal.plugins.ledger;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;

/** Tests for the counts of a sink: commits, failed puts, failed records, moved positions, and rebalances. */
final class SinkCountsTest {
    private static final TopicPartition FIRST = new TopicPartition("orders", 0);
    private static final TopicPartition SECOND = new TopicPartition("orders", 1);
    private final SinkCounts counts = new SinkCounts();

    @Test
    void recordsAreCountedWhenTheirOffsetsAreCommitted() {
        counts.moveTo(FIRST, 5);
        read(FIRST, 7, 8, 12); // offsets without a record are part of the range
        counts.deliver(3);
        assertNull(counts.take(), "the offsets are not committed");
        commit(FIRST, 13);
        check(counts.take(), "3 = 3 + 0 + 0 + 0", "orders-0@5-13 RESUMED");
        assertNull(counts.take(), "the records were taken already");
        read(FIRST, 13);
        counts.deliver(1);
        commit(FIRST, 14);
        check(counts.take(), "1 = 1 + 0 + 0 + 0", "orders-0@13-14 NEXT");
    }

    @Test
    void recordsOfPollAreCountedOnceACommittedOffsetCoversAll() {
        counts.moveTo(FIRST, 0);
        counts.moveTo(SECOND, 0);
        read(FIRST, 0, 1, 2);
        counts.deliver(3);
        read(FIRST, 3, 4);
        read(SECOND, 0);
        counts.deliver(3);
        commit(FIRST, 4); // as returned by preCommit
        check(counts.take(), "3 = 3 + 0 + 0 + 0", "orders-0@0-3 RESUMED");
        commit(FIRST, 4);
        assertNull(counts.take());
        counts.commit(Map.of(FIRST, new OffsetAndMetadata(5), SECOND, new OffsetAndMetadata(1)));
        check(counts.take(), "3 = 3 + 0 + 0 + 0", "orders-0@3-5 NEXT", "orders-1@0-1 RESUMED");
    }

    @Test
    void commitDoesNotCountRecordsThatAreNotDelivered() {
        counts.moveTo(FIRST, 0);
        read(FIRST, 0, 1);
        commit(FIRST, 2);
        assertNull(counts.take());
    }

    @Test
    void repeatedPutIsCountedOnce() {
        counts.moveTo(FIRST, 0);
        read(FIRST, 0, 1);
        report(FIRST, 1, null); // and put throws a RetriableException
        counts.read(ConsumerRecords.empty());
        report(FIRST, 1, null);
        counts.deliver(2);
        commit(FIRST, 2);
        check(counts.take(), "2 = 1 + 0 + 0 + 1", "orders-0@0-2 RESUMED");
    }

    @Test
    void recordsOfSeveralPollsAreDeliveredByOnePut() {
        counts.moveTo(FIRST, 0);
        read(FIRST, 0, 1); // put throws a RetriableException, and the task resumes the partition
        read(FIRST, 2);
        counts.deliver(3);
        commit(FIRST, 3);
        check(counts.take(), "3 = 3 + 0 + 0 + 0", "orders-0@0-3 RESUMED");
    }

    @Test
    void skippedRecordsAreCountedByReason() {
        counts.moveTo(FIRST, 0);
        counts.moveTo(SECOND, 0);
        Map<TopicPartition, List<ConsumerRecord<byte[], byte[]>>> records = new LinkedHashMap<>();
        records.put(FIRST, records(FIRST, 0, 1, 2));
        records.put(SECOND, records(SECOND, 0, 1));
        counts.read(new ConsumerRecords<>(records, Map.of()));
        counts.drop(record(FIRST, 0));
        counts.fail(record(FIRST, 1), CompletableFuture.completedFuture(null));
        counts.fail(record(SECOND, 1), null);
        counts.deliver(2);
        report(FIRST, 2, CompletableFuture.completedFuture(null)); // by an asynchronous sink
        counts.commit(Map.of(FIRST, new OffsetAndMetadata(3), SECOND, new OffsetAndMetadata(2)));
        check(counts.take(), "5 = 1 + 1 + 2 + 1", "orders-0@0-3 RESUMED", "orders-1@0-2 RESUMED");
    }

    @Test
    void recordsWaitForTheirDeadLetters() {
        CompletableFuture<Void> letter = new CompletableFuture<>();
        counts.moveTo(FIRST, 0);
        read(FIRST, 0);
        counts.fail(record(FIRST, 0), letter);
        counts.deliver(0);
        read(FIRST, 1);
        counts.deliver(1);
        commit(FIRST, 2);
        assertNull(counts.take(), "the first range of the partition must be taken first");
        letter.complete(null);
        check(counts.take(), "2 = 1 + 0 + 1 + 0", "orders-0@0-1 RESUMED", "orders-0@1-2 NEXT");
    }

    @Test
    void rejectedDeadLetterIsNotCounted() {
        counts.moveTo(FIRST, 0);
        read(FIRST, 0, 1);
        counts.fail(record(FIRST, 0), CompletableFuture.failedFuture(new IllegalStateException()));
        counts.deliver(1);
        commit(FIRST, 2);
        check(counts.take(), "2 = 1 + 0 + 0 + 0", "orders-0@0-2 RESUMED");
    }

    @Test
    void lostAndRepeatedRecordsOfPutAreVisible() {
        counts.moveTo(FIRST, 0);
        read(FIRST, 0, 1, 2);
        counts.deliver(2);
        commit(FIRST, 3);
        check(counts.take(), "3 = 2 + 0 + 0 + 0", "orders-0@0-3 RESUMED");
        read(FIRST, 3, 4);
        counts.deliver(5);
        commit(FIRST, 5);
        check(counts.take(), "2 = 5 + 0 + 0 + 0", "orders-0@3-5 NEXT");
    }

    @Test
    void rewoundRecordsAreCountedWhenTheyAreReadAgain() {
        counts.moveTo(FIRST, 0);
        read(FIRST, 0, 1);
        counts.deliver(2);
        read(FIRST, 2, 3);
        counts.deliver(2);
        counts.moveTo(FIRST, 4); // the position already
        counts.moveTo(FIRST, 2); // preCommit has failed, or the task has requested an offset
        read(FIRST, 2, 3, 4);
        counts.deliver(3);
        commit(FIRST, 5);
        check(counts.take(), "5 = 5 + 0 + 0 + 0", "orders-0@0-2 RESUMED", "orders-0@2-5 RESUMED");
    }

    @Test
    void rewindIntoAPollLeavesItsFirstRecordsUncounted() {
        counts.moveTo(FIRST, 0);
        read(FIRST, 0, 1, 2);
        counts.deliver(3);
        counts.moveTo(FIRST, 1);
        read(FIRST, 1, 2);
        counts.deliver(2);
        commit(FIRST, 3);
        check(counts.take(), "2 = 2 + 0 + 0 + 0", "orders-0@1-3 RESUMED");
    }

    @Test
    void skippedOffsetsAreNotPartOfARange() {
        counts.moveTo(FIRST, 0);
        read(FIRST, 0);
        counts.deliver(1);
        counts.moveTo(FIRST, 100);
        read(FIRST, 100);
        counts.deliver(1);
        commit(FIRST, 101);
        check(counts.take(), "2 = 2 + 0 + 0 + 0", "orders-0@0-1 RESUMED", "orders-0@100-101 RESUMED");
    }

    @Test
    void resetPositionIsNotAHole() {
        counts.moveTo(FIRST, 500);
        read(FIRST, 0, 1); // the topic was created again
        counts.deliver(2);
        commit(FIRST, 2);
        check(counts.take(), "2 = 2 + 0 + 0 + 0", "orders-0@0-2 SKIPPED");
    }

    @Test
    void recordsOfAFailedPutThatAreReadAgainAreNotCountedAsWritten() {
        counts.moveTo(FIRST, 0);
        read(FIRST, 0, 1); // put throws a RetriableException, but the task keeps the records for the next put
        counts.moveTo(FIRST, 0);
        counts.moveTo(FIRST, 1);
        read(FIRST, 1);
        counts.deliver(3);
        commit(FIRST, 2);
        check(counts.take(), "1 = null + 0 + 0 + 0", "orders-0@1-2 RESUMED");
        read(FIRST, 2);
        counts.deliver(1);
        commit(FIRST, 3);
        check(counts.take(), "1 = 1 + 0 + 0 + 0", "orders-0@2-3 NEXT");
    }

    @Test
    void revokedPartitionIsCountedUpToItsLastCommit() {
        counts.moveTo(FIRST, 0);
        counts.moveTo(SECOND, 0);
        read(FIRST, 0);
        counts.deliver(1);
        commit(FIRST, 1);
        read(FIRST, 1);
        read(SECOND, 0);
        counts.deliver(2);
        counts.remove(List.of(FIRST));
        commit(FIRST, 2); // the answer to an earlier request
        commit(SECOND, 1);
        check(counts.take(), "2 = 2 + 0 + 0 + 0", "orders-0@0-1 RESUMED", "orders-1@0-1 RESUMED");
        counts.moveTo(FIRST, 1);
        read(FIRST, 1);
        counts.deliver(1);
        commit(FIRST, 2);
        check(counts.take(), "1 = 1 + 0 + 0 + 0", "orders-0@1-2 RESUMED");
    }

    @Test
    void putAfterARebalanceIsNotCountedIfItMayContainRevokedRecords() {
        counts.moveTo(FIRST, 0);
        counts.moveTo(SECOND, 0);
        read(FIRST, 0, 1); // put throws a RetriableException
        read(SECOND, 0);
        counts.remove(List.of(FIRST));
        counts.deliver(3);
        commit(SECOND, 1);
        check(counts.take(), "1 = null + 0 + 0 + 0", "orders-1@0-1 RESUMED");
    }

    @Test
    void reportOfARecordThatWasCommittedAlreadyIsIgnored() {
        counts.moveTo(FIRST, 0);
        read(FIRST, 0);
        counts.deliver(1);
        commit(FIRST, 1);
        report(FIRST, 0, null);
        check(counts.take(), "1 = 1 + 0 + 0 + 0", "orders-0@0-1 RESUMED");
    }

    @Test
    void reportOfAnotherTopicMakesTheWrittenRecordsUnknown() {
        counts.moveTo(FIRST, 0);
        read(FIRST, 0);
        counts.deliver(1);
        commit(FIRST, 1);
        read(FIRST, 1);
        counts.deliver(1);
        report(new TopicPartition("changed", 0), 1, null);
        commit(FIRST, 2);
        Map<String, Object> taken = counts.take();
        assertEquals(
            List.of("1 = 1 + 0 + 0 + 0", "1 = null + 0 + 0 + 0"), describeCounts(taken), "the first record is not affected");
        assertEquals(List.of("orders-0@0-1 RESUMED", "orders-0@1-2 NEXT"), describeRanges(taken));
    }

    @Test
    void taskThatNeverCommitsUsesLimitedMemory() {
        counts.moveTo(FIRST, 0);
        for (int offset = 0; offset < 10_000; offset++) {
            read(FIRST, offset);
            counts.deliver(1);
        }
        assertNull(counts.take());
        commit(FIRST, 5000);
        long committed = (long) ((Map<?, ?>) ((List<?>) counts.take().get("counts")).get(0)).get("read");
        assertEquals(5000, committed, 500, "at most a part of the records waits for a later commit");
        commit(FIRST, 10_000);
        check(counts.take(), "%d = %<d + 0 + 0 + 0".formatted(10_000 - committed), "orders-0@%d-10000 NEXT".formatted(committed));
    }

    @Test
    void taskThatAlwaysSkipsOffsetsUsesLimitedMemory() {
        for (int offset = 0; offset < 2000; offset += 2) {
            counts.moveTo(FIRST, offset);
            read(FIRST, offset);
            counts.deliver(1);
        }
        commit(FIRST, 2000);
        Map<String, Object> taken = counts.take();
        List<String> ranges = describeRanges(taken);
        assertEquals(99, ranges.size());
        assertEquals("orders-0@1998-1999 RESUMED", ranges.get(98));
        assertEquals(List.of("99 = 99 + 0 + 0 + 0"), describeCounts(taken), "earlier ranges are uncounted");
    }

    private void read(TopicPartition partition, long... offsets) {
        counts.read(new ConsumerRecords<>(Map.of(partition, records(partition, offsets)), Map.of()));
    }

    private void commit(TopicPartition partition, long offset) {
        counts.commit(Map.of(partition, new OffsetAndMetadata(offset)));
    }

    private void report(TopicPartition partition, long offset, CompletableFuture<Void> letter) {
        counts.report(record(partition, offset), letter);
    }

    static List<ConsumerRecord<byte[], byte[]>> records(TopicPartition partition, long... offsets) {
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (long offset : offsets) {
            records.add(record(partition, offset));
        }
        return records;
    }

    static ConsumerRecord<byte[], byte[]> record(TopicPartition partition, long offset) {
        return new ConsumerRecord<>(partition.topic(), partition.partition(), offset, null, null);
    }

    /** Checks counts of the form "read = written + dropped + dead letters + tolerated", and ranges. */
    static void check(Map<String, Object> taken, String expectedCounts, String... ranges) {
        assertEquals(List.of(expectedCounts), describeCounts(taken));
        assertEquals(List.of(ranges), describeRanges(taken).stream().sorted().toList());
    }

    static List<String> describeCounts(Map<String, Object> taken) {
        List<String> all = new ArrayList<>();
        for (Object each : (List<?>) taken.get("counts")) {
            Map<?, ?> map = (Map<?, ?>) each;
            all.add("%s = %s + %s + %s + %s".formatted(
                map.get("read"), map.get("written"), map.get("dropped"), map.get("dead_letters"), map.get("tolerated")));
        }
        return all;
    }

    static List<String> describeRanges(Map<String, Object> taken) {
        return ((List<?>) taken.get("ranges")).stream()
            .map(row -> "%s-%s@%s-%s %s".formatted(((List<?>) row).toArray())).toList();
    }
}
