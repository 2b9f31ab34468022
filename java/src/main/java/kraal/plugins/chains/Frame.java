package kraal.plugins.chains;

import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import kraal.plugins.Json;

/**
 * A message between Python and {@link ChainServer}: a JSON object followed by little-endian buffers in Arrow's layout.
 *
 * <p>Wire format: the length of the JSON as a big-endian int; the JSON, whose key {@code sizes} contains the lengths of
 * the buffers; and the buffers. Source of the layouts: Arrow's columnar format.
 */
record Frame(Map<String, Object> head, List<ByteBuffer> buffers) {

    static Frame read(DataInputStream input) throws IOException {
        byte[] text = input.readNBytes(input.readInt());
        Map<String, Object> head = Json.object(new String(text, StandardCharsets.UTF_8));
        List<ByteBuffer> buffers = new ArrayList<>();
        for (Object size : (List<?>) head.get("sizes")) {
            byte[] bytes = new byte[((Number) size).intValue()];
            input.readFully(bytes);
            buffers.add(ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN));
        }
        return new Frame(head, buffers);
    }

    void write(DataOutputStream output) throws IOException {
        Map<String, Object> headWithSizes = new LinkedHashMap<>(head);
        headWithSizes.put("sizes", buffers.stream().map(ByteBuffer::remaining).toList());
        byte[] text = Json.text(headWithSizes).getBytes(StandardCharsets.UTF_8);
        output.writeInt(text.length);
        output.write(text);
        for (ByteBuffer buffer : buffers) {
            output.write(buffer.array(), buffer.position(), buffer.remaining());
        }
        output.flush();
    }

    /** A buffer to which bytes and integers can be appended. */
    static final class GrowingBuffer extends ByteArrayOutputStream {
        void addInt(int value) {
            write(value);
            write(value >>> 8);
            write(value >>> 16);
            write(value >>> 24);
        }

        ByteBuffer toBuffer() {
            return ByteBuffer.wrap(buf, 0, count);
        }
    }
}
