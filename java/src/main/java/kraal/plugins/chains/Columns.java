package kraal.plugins.chains;

import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.Date;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.apache.kafka.connect.data.Decimal;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.Struct;

/** Parses the columns of a frame, written by {@code frames.py}, as Connect values. */
final class Columns {

    /** The values of one column. */
    interface Column {
        Object get(int row);
    }

    private Columns() {
    }

    /**
     * Parses a column from its description, and consumes its buffers. Without a schema, integers are of type Long.
     */
    static Column read(Map<String, Object> description, Schema schema, Iterator<ByteBuffer> buffers) {
        BitSet valid = Boolean.TRUE.equals(description.get("nulls")) ? BitSet.valueOf(buffers.next()) : null;
        Column values = values(description, schema, buffers);
        return valid == null ? values : row -> valid.get(row) ? values.get(row) : null;
    }

    /** Parses all columns of a frame by name, with the schemas in {@code schemas}, if any. */
    static Map<String, Column> readAll(Frame frame, Function<String, Schema> schemas) {
        Iterator<ByteBuffer> buffers = frame.buffers().iterator();
        Map<String, Column> columns = new LinkedHashMap<>();
        for (Object item : (List<?>) frame.head().get("columns")) {
            Map<String, Object> entry = object(item);
            String name = (String) entry.get("name");
            columns.put(name, read(part(entry, "column"), schemas.apply(name), buffers));
        }
        return columns;
    }

    private static Column values(Map<String, Object> description, Schema schema, Iterator<ByteBuffer> buffers) {
        String kind = (String) description.get("kind");
        switch (kind) {
            case "null":
                return row -> null;
            case "long":
                return integers(buffers.next(), schema);
            case "time":
                ByteBuffer times = buffers.next();
                return row -> new Date(times.getLong(8 * row));
            case "double":
            case "float":
                return floats(buffers.next(), schema == null ? "float".equals(kind) : schema.type() == Schema.Type.FLOAT32);
            case "boolean":
                BitSet bits = BitSet.valueOf(buffers.next());
                return bits::get;
            case "text":
                Column texts = bytes(buffers.next(), buffers.next());
                return row -> new String((byte[]) texts.get(row), StandardCharsets.UTF_8);
            case "decimal":
                return decimals(bytes(buffers.next(), buffers.next()), schema);
            case "bytes":
                return bytes(buffers.next(), buffers.next());
            case "struct":
                return structs(description, schema, buffers);
            case "list":
                ByteBuffer ends = buffers.next();
                Column items = read(part(description, "items"), schema == null ? null : schema.valueSchema(), buffers);
                return row -> list(ends, items, row);
            case "map":
                return maps(description, schema, buffers);
            default:
                throw new IllegalArgumentException("unknown kind of column: " + kind);
        }
    }

    private static Column integers(ByteBuffer data, Schema schema) {
        Schema.Type type = schema == null ? Schema.Type.INT64 : schema.type();
        switch (type) {
            case INT8:
                return row -> (byte) data.getLong(8 * row);
            case INT16:
                return row -> (short) data.getLong(8 * row);
            case INT32:
                return row -> (int) data.getLong(8 * row);
            default:
                return row -> data.getLong(8 * row);
        }
    }

    private static Column floats(ByteBuffer data, boolean isFloat32) {
        if (isFloat32) {
            return row -> (float) data.getDouble(8 * row);
        }
        return row -> data.getDouble(8 * row);
    }

    private static Column decimals(Column bytes, Schema schema) {
        String scale = schema == null || schema.parameters() == null ? null : schema.parameters().get(Decimal.SCALE_FIELD);
        return row -> {
            BigDecimal number = new BigDecimal(new String((byte[]) bytes.get(row), StandardCharsets.US_ASCII));
            return scale == null ? number : number.setScale(Integer.parseInt(scale));
        };
    }

    private static Column bytes(ByteBuffer ends, ByteBuffer data) {
        int firstEnd = ends.getInt(0);
        return row -> {
            int from = ends.getInt(4 * row);
            byte[] value = new byte[ends.getInt(4 * row + 4) - from];
            data.get(from - firstEnd, value);
            return value;
        };
    }

    private static Column structs(Map<String, Object> description, Schema schema, Iterator<ByteBuffer> buffers) {
        Map<String, Column> columns = new LinkedHashMap<>();
        for (Object item : (List<?>) description.get("fields")) {
            Map<String, Object> field = object(item);
            String name = (String) field.get("name");
            Field schemaField = schema == null ? null : schema.field(name);
            columns.put(name, read(part(field, "column"), schemaField == null ? null : schemaField.schema(), buffers));
        }
        if (schema == null) {
            return row -> {
                Map<String, Object> fields = new LinkedHashMap<>();
                columns.forEach((name, column) -> fields.put(name, column.get(row)));
                return fields;
            };
        }
        return row -> {
            Struct struct = new Struct(schema);
            columns.forEach((name, column) -> struct.put(name, column.get(row)));
            return struct;
        };
    }

    private static Column maps(Map<String, Object> description, Schema schema, Iterator<ByteBuffer> buffers) {
        ByteBuffer ends = buffers.next();
        Column keys = read(part(description, "keys"), schema == null ? null : schema.keySchema(), buffers);
        Column items = read(part(description, "items"), schema == null ? null : schema.valueSchema(), buffers);
        return row -> {
            List<Object> rowKeys = list(ends, keys, row);
            List<Object> rowItems = list(ends, items, row);
            Map<Object, Object> entries = new LinkedHashMap<>();
            for (int index = 0; index < rowKeys.size(); index++) {
                entries.put(rowKeys.get(index), rowItems.get(index));
            }
            return entries;
        };
    }

    private static List<Object> list(ByteBuffer ends, Column items, int row) {
        int firstEnd = ends.getInt(0);
        List<Object> values = new ArrayList<>();
        for (int index = ends.getInt(4 * row); index < ends.getInt(4 * row + 4); index++) {
            values.add(items.get(index - firstEnd));
        }
        return values;
    }

    private static Map<String, Object> part(Map<String, Object> description, String name) {
        return object(description.get(name));
    }

    @SuppressWarnings("unchecked")
    static Map<String, Object> object(Object value) {
        return (Map<String, Object>) value;
    }
}
