package kraal.plugins.ledger;

import java.util.Map;

/** The counts of the records of one run of a task. */
public interface RecordCounts {
    /**
     * Returns the counts of the records whose offsets were committed since the last call; null if there are none.
     * {@code kraal/java_plugins/counted_records.py} describes the format. Thread-safe.
     */
    Map<String, Object> take();
}
