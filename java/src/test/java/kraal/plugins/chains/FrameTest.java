package kraal.plugins.chains;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.connect.data.Schema;
import org.junit.jupiter.api.Test;

/** Tests for {@link Frame}, {@link Columns} and {@link Rows}. */
final class FrameTest {
    private static ByteBuffer buffer(int... bytes) {
        byte[] array = new byte[bytes.length];
        for (int index = 0; index < bytes.length; index++) {
            array[index] = (byte) bytes[index];
        }
        return ByteBuffer.wrap(array).order(ByteOrder.LITTLE_ENDIAN);
    }

    @Test
    void frameRoundTrips() throws IOException {
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        new Frame(Map.of("chain", 7), List.of(buffer(1, 2), buffer())).write(new DataOutputStream(output));
        Frame frame = Frame.read(new DataInputStream(new ByteArrayInputStream(output.toByteArray())));
        assertEquals(7L, frame.head().get("chain"));
        assertEquals(List.of(buffer(1, 2), buffer()), frame.buffers());
    }

    @Test
    void columnStartsAtItsFirstOffset() {
        Map<String, Object> description = Map.of("kind", "text", "nulls", true);
        List<ByteBuffer> buffers = List.of(buffer(5), buffer(4, 0, 0, 0, 6, 0, 0, 0, 6, 0, 0, 0, 7, 0, 0, 0), buffer('a', 'b', 'c'));
        Columns.Column column = Columns.read(description, null, buffers.iterator());
        assertEquals("ab", column.get(0));
        assertNull(column.get(1));
        assertEquals("c", column.get(2));
    }

    @Test
    void integerHasTheTypeOfItsSchema() {
        ByteBuffer data = buffer(255, 255, 255, 255, 255, 255, 255, 255);
        Map<String, Object> description = Map.of("kind", "long", "nulls", false);
        assertEquals((short) -1, Columns.read(description, Schema.INT16_SCHEMA, List.of(data).iterator()).get(0));
        assertEquals(-1L, Columns.read(description, null, List.of(data).iterator()).get(0));
    }

    @Test
    void rowsHaveTheArrowLayout() {
        Rows rows = new Rows();
        rows.add("t", null, new RecordHeaders(), null, new byte[] {9});
        rows.add("u", 3, new RecordHeaders().add("h", null), new byte[] {1}, new byte[0]);
        List<ByteBuffer> buffers = new ArrayList<>();
        assertEquals(Map.of("rows", 2, "headers", 1), rows.writeTo(buffers));
        assertEquals(18, buffers.size());
        assertArrayEquals(new byte[] {2}, bytes(buffers.get(3)), "the second row has a partition");
        assertArrayEquals(new byte[] {0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0}, bytes(buffers.get(5)), "headers end");
        assertArrayEquals(new byte[] {3}, bytes(buffers.get(15)), "both values are valid");
    }

    private static byte[] bytes(ByteBuffer buffer) {
        byte[] array = new byte[buffer.remaining()];
        buffer.get(array);
        return array;
    }
}
