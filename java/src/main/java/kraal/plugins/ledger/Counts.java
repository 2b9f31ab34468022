package kraal.plugins.ledger;

import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Numbers of records by outcome; {@code kraal/ledger/counts.py} defines them. Not thread-safe. */
final class Counts {
    long read;
    long written;
    long dropped;
    long deadLetters;
    long tolerated;
    /** Whether the number of written records is known. */
    boolean isWrittenKnown = true;

    void add(Counts other) {
        read += other.read;
        written += other.written;
        dropped += other.dropped;
        deadLetters += other.deadLetters;
        tolerated += other.tolerated;
        isWrittenKnown &= other.isWrittenKnown;
    }

    boolean isEmpty() {
        return read == 0 && written == 0 && dropped == 0 && deadLetters == 0 && tolerated == 0;
    }

    /** Returns the result of {@link RecordCounts#take}; {@code positions} are ranges of topic partitions, or offsets. */
    static Map<String, Object> describe(List<Counts> counts, String name, List<List<Object>> positions) {
        List<Map<String, Object>> all = counts.stream().filter(each -> !each.isEmpty()).map(Counts::toMap).toList();
        return all.isEmpty() && positions.isEmpty() ? null : Map.of("counts", all, name, positions);
    }

    /** Returns the numbers by their names in Python; {@code written} is null if it is not known. */
    private Map<String, Object> toMap() {
        Map<String, Object> map = new HashMap<>();
        map.put("read", read);
        map.put("written", isWrittenKnown ? written : null);
        map.put("dropped", dropped);
        map.put("dead_letters", deadLetters);
        map.put("tolerated", tolerated);
        return map;
    }
}
