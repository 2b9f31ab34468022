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
    private final Frame.GrowingBuffer partitions = new Frame.GrowingBuffer();
    private final BitSet hasPartition = new BitSet();
    private final Frame.GrowingBuffer headerEnds = new Frame.GrowingBuffer();
    private final Binary headerNames = new Binary();
    private final Binary headerValues = new Binary();
    private final Binary keys = new Binary();
    private final Binary values = new Binary();

    Rows() {
        headerEnds.addInt(0);
    }

    void add(String topic, Integer partition, Headers headers, byte[] key, byte[] value) {
        if (partition != null) {
            hasPartition.set(topics.count);
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

    /** Adds the buffers of the columns; returns the description of the columns. */
    Map<String, Object> writeTo(List<ByteBuffer> buffers) {
        topics.writeTo(buffers);
        buffers.add(bits(hasPartition, topics.count));
        buffers.add(partitions.toBuffer());
        buffers.add(headerEnds.toBuffer());
        headerNames.writeTo(buffers);
        headerValues.writeTo(buffers);
        keys.writeTo(buffers);
        values.writeTo(buffers);
        Map<String, Object> description = new LinkedHashMap<>();
        description.put("rows", topics.count);
        description.put("headers", headerNames.count);
        return description;
    }

    private static ByteBuffer bits(BitSet set, int count) {
        byte[] bytes = new byte[(count + 7) / 8];
        byte[] setBytes = set.toByteArray();
        System.arraycopy(setBytes, 0, bytes, 0, setBytes.length);
        return ByteBuffer.wrap(bytes);
    }

    /** A column of bytes. */
    private static final class Binary {
        private final BitSet valid = new BitSet();
        private final Frame.GrowingBuffer ends = new Frame.GrowingBuffer();
        private final Frame.GrowingBuffer data = new Frame.GrowingBuffer();
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
            buffers.addAll(List.of(bits(valid, count), ends.toBuffer(), data.toBuffer()));
        }
    }

    /** A column of 64-bit integers. */
    static final class Longs {
        private final BitSet valid = new BitSet();
        private final Frame.GrowingBuffer data = new Frame.GrowingBuffer();
        private int count;

        void add(Long value) {
            if (value != null) {
                valid.set(count);
            }
            long number = value == null ? 0 : value;
            data.addInt((int) number);
            data.addInt((int) (number >>> 32));
            count++;
        }

        void writeTo(List<ByteBuffer> buffers) {
            buffers.addAll(List.of(bits(valid, count), data.toBuffer()));
        }
    }
}
