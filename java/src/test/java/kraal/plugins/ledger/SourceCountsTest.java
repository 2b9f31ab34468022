package kraal.plugins.ledger;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.connect.source.SourceRecord;
import org.junit.jupiter.api.Test;

/** Tests for the counts of a source without exactly-once support: acknowledgements, commits, and failed records. */
final class SourceCountsTest {
    private final SourceCounts counts = new SourceCounts();
    /** The records that Kafka tracks, by partition: whether each is acknowledged. */
    private final Map<Map<String, ?>, Deque<boolean[]>> tracked = new HashMap<>();

    @Test
    void recordsAreCountedWhenTheirOffsetsAreStored() {
        send(record("a", 1), record("a", 2));
        assertEquals(null, commit(), "the records are not acknowledged");
        acknowledge("a", 1);
        assertNull(commit(), "one record is not acknowledged");
        acknowledge("a", 1);
        check(commit(), "2 = 2 + 0 + 0 + 0", "a@2");
        assertNull(commit());
    }

    @Test
    void recordsThatAreAcknowledgedDuringACommitWaitForTheNextOne() {
        send(record("a", 1));
        acknowledge("a", 1);
        snapshot();
        Object mark = counts.mark();
        send(record("a", 2));
        acknowledge("a", 1);
        snapshot();
        counts.commit(mark);
        check(counts.take(), "1 = 1 + 0 + 0 + 0", "a@1");
        check(commit(), "1 = 1 + 0 + 0 + 0", "a@2");
    }

    @Test
    void recordsOfAFailedCommitAreCountedByTheNextOne() {
        send(record("a", 1));
        acknowledge("a", 1);
        snapshot();
        counts.mark();
        send(record("a", 2));
        acknowledge("a", 1);
        check(commit(), "2 = 2 + 0 + 0 + 0", "a@2");
    }

    @Test
    void commitsThatAlwaysFailUseLimitedMemory() {
        Object earlierMark = null;
        for (int number = 1; number <= 1000; number++) {
            send(record("a", number), record("b", number));
            acknowledge("a", 1);
            acknowledge("b", 1);
            snapshot();
            counts.mark();
            earlierMark = number == 950 ? counts.mark() : earlierMark;
        }
        counts.commit(earlierMark);
        check(counts.take(), "1900 = 1900 + 0 + 0 + 0", "a@950", "b@950");
        check(commit(), "100 = 100 + 0 + 0 + 0", "a@1000", "b@1000");
    }

    @Test
    void recordsWaitForEarlierRecordsOfOtherPartitions() {
        send(record("a", 1));
        send(record("b", 1));
        acknowledge("b", 1);
        assertNull(commit(), "polls are counted in their order");
        acknowledge("a", 1);
        check(commit(), "2 = 2 + 0 + 0 + 0", "a@1", "b@1");
    }

    @Test
    void skippedRecordsAreCountedByReason() {
        counts.read(List.of(record("a", 1), record("a", 2), record("a", 3)));
        counts.skip(false);
        dispatch(record("a", 2));
        counts.skip(true);
        counts.completeBatch();
        acknowledge("a", 1);
        check(commit(), "3 = 1 + 1 + 0 + 1", "a@2");
        counts.read(List.of(record("a", 4)));
        counts.skip(false);
        counts.completeBatch();
        check(commit(), "1 = 0 + 1 + 0 + 0");
    }

    @Test
    void batchThatIsRetriedIsCountedOnce() {
        counts.read(List.of(record("a", 1), record("a", 2)));
        dispatch(record("a", 1)); // the producer throws a RetriableException for the second one
        acknowledge("a", 1);
        assertNull(commit(), "the poll is not complete");
        dispatch(record("a", 2));
        counts.completeBatch();
        acknowledge("a", 1);
        check(commit(), "2 = 2 + 0 + 0 + 0", "a@2");
    }

    @Test
    void lostRecordsAreVisible() {
        counts.read(List.of(record("a", 1), record("a", 2)));
        dispatch(record("a", 1));
        counts.completeBatch();
        acknowledge("a", 1);
        check(commit(), "2 = 1 + 0 + 0 + 0", "a@1");
    }

    @Test
    void rejectedRecordIsATolerated() {
        SourceRecord rejected = record("a", 1);
        send(rejected, record("a", 1));
        counts.reject(rejected);
        acknowledge("a", 2);
        check(commit(), "2 = 1 + 0 + 0 + 1", "a@1");
    }

    @Test
    void writtenRecordsAreUnknownIfTheRejectedOneIsNotFound() {
        List<SourceRecord> reused = new ArrayList<>(List.of(record("a", 1)));
        counts.read(reused);
        dispatch(reused.get(0));
        counts.completeBatch();
        SourceRecord rejected = reused.remove(0);
        counts.reject(rejected);
        acknowledge("a", 1);
        check(commit(), "1 = null + 0 + 0 + 0", "a@1");
    }

    @Test
    void recordsWithoutPositionAreCounted() {
        SourceRecord record = new SourceRecord(null, null, "topic", null, null);
        send(record);
        tracked.get(null).forEach(each -> each[0] = true);
        check(commit(), "1 = 1 + 0 + 0 + 0");
    }

    @Test
    void randomAcknowledgementsAndCommitsNeverBreakTheLaw() {
        for (int seed = 0; seed < 500; seed++) {
            new RandomRun(seed).run();
        }
    }

    /** A run in which polls, acknowledgements and commits happen in any order. */
    private static final class RandomRun {
        private final Random random;
        private final SourceCountsTest test = new SourceCountsTest();
        private final Map<String, Long> stored = new HashMap<>();
        private long next = 1;
        private long read;
        private long counted;
        private Object mark;
        private Map<String, Long> committing;

        RandomRun(int seed) {
            random = new Random(seed);
        }

        void run() {
            for (int step = 0; step < 200; step++) {
                switch (random.nextInt(5)) {
                    case 0, 1 -> poll();
                    case 2 -> test.acknowledge(name(), random.nextInt(4));
                    case 3 -> test.snapshot();
                    default -> commitStep();
                }
            }
            List.of("a", "b", "c").forEach(name -> test.acknowledge(name, Integer.MAX_VALUE));
            test.snapshot();
            for (int step = 0; step < 2 || mark != null; step++) {
                commitStep();
            }
            assertEquals(read, counted, "all records are counted in the end");
        }

        private String name() {
            return List.of("a", "b", "c").get(random.nextInt(3));
        }

        private void poll() {
            List<SourceRecord> records = new ArrayList<>();
            for (int i = random.nextInt(5); i >= 0; i--) {
                records.add(record(name(), next++));
            }
            test.counts.read(records);
            for (SourceRecord each : records) {
                if (random.nextInt(4) == 0) {
                    test.counts.skip(random.nextBoolean());
                } else {
                    test.dispatch(each);
                }
            }
            test.counts.completeBatch();
            read += records.size();
        }

        /** Begins a commit, or completes it. */
        private void commitStep() {
            if (mark == null) {
                mark = test.counts.mark();
                committing = new HashMap<>(test.acknowledgedOffsets);
                return;
            }
            test.counts.commit(mark);
            mark = null;
            stored.putAll(committing);
            Map<String, Object> taken = test.counts.take();
            for (Object each : taken == null ? List.of() : (List<?>) taken.get("counts")) {
                Map<?, ?> map = (Map<?, ?>) each;
                counted += (long) map.get("read");
                assertEquals(
                    (long) map.get("read"),
                    (long) map.get("written") + (long) map.get("dropped") + (long) map.get("tolerated"));
            }
            for (Object each : taken == null ? List.of() : (List<?>) taken.get("offsets")) {
                String partition = (String) ((List<?>) each).get(0);
                long offset = Long.parseLong(((String) ((List<?>) each).get(1)).replaceAll("\\D", ""));
                assertTrue(offset <= stored.get(partition), "only stored offsets are counted");
            }
        }
    }

    /** The offset of the last acknowledged record of each partition that Kafka no longer tracks. */
    private final Map<String, Long> acknowledgedOffsets = new HashMap<>();
    private final Map<boolean[], Long> offsets = new HashMap<>();

    private void send(SourceRecord... records) {
        counts.read(List.of(records));
        for (SourceRecord record : records) {
            dispatch(record);
        }
        counts.completeBatch();
    }

    private void dispatch(SourceRecord record) {
        boolean[] isAcknowledged = {false};
        tracked.computeIfAbsent(record.sourcePartition(), absent -> new ArrayDeque<>()).add(isAcknowledged);
        if (record.sourceOffset() != null) {
            offsets.put(isAcknowledged, (Long) record.sourceOffset().get("position"));
        }
        counts.dispatch(record);
    }

    /** Acknowledges the next {@code count} records of a partition. */
    private void acknowledge(String name, int count) {
        int left = count;
        for (boolean[] each : tracked.getOrDefault(Map.of("name", name), new ArrayDeque<>())) {
            if (!each[0] && left-- > 0) {
                each[0] = true;
            }
        }
    }

    /** Does what Kafka's task does between two polls. */
    private void snapshot() {
        tracked.forEach((partition, records) -> {
            while (!records.isEmpty() && records.element()[0]) {
                Long offset = offsets.remove(records.remove());
                if (offset != null) {
                    acknowledgedOffsets.put("{\"name\":\"%s\"}".formatted(partition.get("name")), offset);
                }
            }
        });
        counts.acknowledge(partition -> tracked.containsKey(partition) ? tracked.get(partition).size() : 0);
    }

    private Map<String, Object> commit() {
        snapshot();
        counts.commit(counts.mark());
        return counts.take();
    }

    private static SourceRecord record(String name, long position) {
        return new SourceRecord(Map.of("name", name), Map.of("position", position), "topic", null, null);
    }

    /** Checks counts of the form "read = written + dropped + dead letters + tolerated", and offsets. */
    static void check(Map<String, Object> taken, String expectedCounts, String... offsets) {
        assertEquals(List.of(expectedCounts), SinkCountsTest.describeCounts(taken));
        List<String> positions = ((List<?>) taken.get("offsets")).stream()
            .map(row -> "%s@%s".formatted(((List<?>) row).toArray()).replaceAll("[{}\":]|name|position", "")).toList();
        assertEquals(List.of(offsets), positions);
    }
}
