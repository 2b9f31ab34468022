package kraal.plugins.chains;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.BitSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;

/** The output rows of a chain as Arrow columns, which {@code frames.py} parses. */
final class Rows {
    private final Binary topics = new Binary();
    private final Frame.Growing partitions = new Frame.Growing();
    private final BitSet placed = new BitSet();
    private final Frame.Growing headerEnds = new Frame.Growing();
    private final Binary headerNames = new Binary();
    private final Binary headerValues = new Binary();
    private final Binary keys = new Binary();
    private final Binary values = new Binary();

    Rows() {
        headerEnds.addInt(0);
    }

    void add(String topic, Integer partition, Headers headers, byte[] key, byte[] value) {
        if (partition != null) {
            placed.set(topics.count);
        }
        topics.add(topic.getBytes(StandardCharsets.UTF_8));
        partitions.addInt(partition == null ? 0 : partition);
        for (Header header : headers) {
            headerNames.add(header.key().getBytes(StandardCharsets.UTF_8));
            headerValues.add(header.value());
        }
        headerEnds.addInt(headerNames.count);
        keys.add(key);
        values.add(value);
    }

    /** Adds the columns' buffers; returns their description. */
    Map<String, Object> writeTo(List<ByteBuffer> buffers) {
        topics.writeTo(buffers);
        buffers.add(bits(placed, topics.count));
        buffers.add(partitions.made());
        buffers.add(headerEnds.made());
        headerNames.writeTo(buffers);
        headerValues.writeTo(buffers);
        keys.writeTo(buffers);
        values.writeTo(buffers);
        Map<String, Object> about = new LinkedHashMap<>();
        about.put("rows", topics.count);
        about.put("headers", headerNames.count);
        return about;
    }

    private static ByteBuffer bits(BitSet set, int count) {
        byte[] bytes = new byte[(count + 7) / 8];
        byte[] known = set.toByteArray();
        System.arraycopy(known, 0, bytes, 0, known.length);
        return ByteBuffer.wrap(bytes);
    }

    /** A column of bytes. */
    private static final class Binary {
        private final BitSet valid = new BitSet();
        private final Frame.Growing ends = new Frame.Growing();
        private final Frame.Growing data = new Frame.Growing();
        private int count;

        Binary() {
            ends.addInt(0);
        }

        void add(byte[] value) {
            if (value != null) {
                valid.set(count);
                data.writeBytes(value);
            }
            count++;
            ends.addInt(data.size());
        }

        void writeTo(List<ByteBuffer> buffers) {
            buffers.addAll(List.of(bits(valid, count), ends.made(), data.made()));
        }
    }

    /** A column of numbers. */
    static final class Longs {
        private final BitSet valid = new BitSet();
        private final Frame.Growing data = new Frame.Growing();
        private int count;

        void add(Long value) {
            if (value != null) {
                valid.set(count);
            }
            long known = value == null ? 0 : value;
            data.addInt((int) known);
            data.addInt((int) (known >>> 32));
            count++;
        }

        void writeTo(List<ByteBuffer> buffers) {
            buffers.addAll(List.of(bits(valid, count), data.made()));
        }
    }
}
