package kraal.plugins.ledger;

import java.util.ArrayList;
import java.util.ConcurrentModificationException;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import kraal.plugins.Json;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The counts of records of a source, and the offset of the last record of each source partition. Not thread-safe. */
final class SourceEntry {
    private static final Logger LOG = LoggerFactory.getLogger(SourceEntry.class);
    final Counts counts = new Counts();
    final Map<Map<String, ?>, Map<String, ?>> offsets = new LinkedHashMap<>();

    /** Adds records that follow those of this entry. */
    void add(SourceEntry next) {
        counts.add(next.counts);
        offsets.putAll(next.offsets);
    }

    /** Adds records that precede those of this entry. */
    void addEarlier(SourceEntry earlier) {
        counts.add(earlier.counts);
        earlier.offsets.forEach(offsets::putIfAbsent);
    }

    boolean isEmpty() {
        return counts.isEmpty() && offsets.isEmpty();
    }

    /**
     * Returns the result of {@link RecordCounts#take}. Partitions and offsets are JSON text. Records without a partition or
     * an offset have no position, and neither have partitions whose offset the task is changing.
     */
    Map<String, Object> describe() {
        List<List<Object>> positions = new ArrayList<>();
        offsets.forEach((partition, offset) -> {
            if (partition != null && offset != null) {
                try {
                    positions.add(List.of(Json.text(partition), Json.text(offset)));
                } catch (IllegalArgumentException | ConcurrentModificationException e) {
                    LOG.debug("Failed to serialize an offset", e);
                }
            }
        });
        return Counts.describe(List.of(counts), "offsets", positions);
    }
}
