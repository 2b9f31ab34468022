package kraal.plugins.ledger;

import static org.junit.jupiter.api.Assertions.assertNull;

import java.util.Map;
import org.apache.kafka.connect.source.SourceRecord;
import org.junit.jupiter.api.Test;

/** Tests for the counts of a source with exactly-once support: commits within a poll, and aborted transactions. */
final class TransactionCountsTest {
    private final TransactionCounts counts = new TransactionCounts();

    @Test
    void recordsAreCountedWhenTheirTransactionIsCommitted() {
        counts.read(3);
        send(1);
        counts.skip(false);
        counts.skip(true);
        counts.completeBatch();
        counts.read(1);
        send(4);
        counts.completeBatch();
        assertNull(counts.take());
        counts.commit();
        SourceCountsTest.check(counts.take(), "4 = 2 + 1 + 0 + 1", "a@4");
        assertNull(counts.take());
    }

    @Test
    void transactionMayEndWithinAPoll() {
        counts.read(3);
        send(1);
        counts.commit();
        SourceCountsTest.check(counts.take(), "1 = 1 + 0 + 0 + 0", "a@1");
        send(2);
        send(3);
        counts.completeBatch();
        counts.commit();
        SourceCountsTest.check(counts.take(), "2 = 2 + 0 + 0 + 0", "a@3");
    }

    @Test
    void commitsAreSummedUpUntilTheyAreTaken() {
        for (int position = 1; position <= 3; position++) {
            counts.read(1);
            send(position);
            counts.completeBatch();
            counts.commit();
        }
        SourceCountsTest.check(counts.take(), "3 = 3 + 0 + 0 + 0", "a@3");
    }

    @Test
    void recordsOfAnAbortedTransactionAreDropped() {
        counts.read(3);
        send(1);
        dispatch(2); // not acknowledged before the task aborts the transaction
        counts.abort();
        counts.commit();
        SourceCountsTest.check(counts.take(), "2 = 0 + 2 + 0 + 0", "a@2");
        send(3);
        counts.completeBatch();
        counts.commit();
        SourceCountsTest.check(counts.take(), "1 = 1 + 0 + 0 + 0", "a@3");
    }

    @Test
    void lostRecordsAreVisible() {
        counts.read(2);
        send(1);
        dispatch(2); // never acknowledged
        counts.completeBatch();
        counts.commit();
        SourceCountsTest.check(counts.take(), "2 = 1 + 0 + 0 + 0", "a@2");
    }

    private void send(long position) {
        dispatch(position);
        counts.acknowledge();
    }

    private void dispatch(long position) {
        counts.dispatch(new SourceRecord(Map.of("name", "a"), Map.of("position", position), "topic", null, null));
    }
}
