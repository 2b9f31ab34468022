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
     * Parses a column that {@code kind} and its parts describe, and consumes its buffers. Without a schema, its values
     * have the Java types that JsonConverter uses for schemaless values.
     */
    static Column read(Map<String, Object> described, Schema schema, Iterator<ByteBuffer> buffers) {
        BitSet valid = Boolean.TRUE.equals(described.get("nulls")) ? BitSet.valueOf(buffers.next()) : null;
        Column values = values(described, schema, buffers);
        return valid == null ? values : row -> valid.get(row) ? values.get(row) : null;
    }

    /** Parses all columns of a frame by name, with the schemas in {@code schemas}, if any. */
    static Map<String, Column> readAll(Frame given, Function<String, Schema> schemas) {
        Iterator<ByteBuffer> buffers = given.buffers().iterator();
        Map<String, Column> columns = new LinkedHashMap<>();
        for (Object each : (List<?>) given.about().get("columns")) {
            Map<String, Object> named = object(each);
            String name = (String) named.get("name");
            columns.put(name, read(part(named, "column"), schemas.apply(name), buffers));
        }
        return columns;
    }

    private static Column values(Map<String, Object> described, Schema schema, Iterator<ByteBuffer> buffers) {
        String kind = (String) described.get("kind");
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
                return decimals(buffers.next(), schema == null ? "float".equals(kind) : schema.type() == Schema.Type.FLOAT32);
            case "boolean":
                BitSet bits = BitSet.valueOf(buffers.next());
                return bits::get;
            case "text":
                Column texts = bytes(buffers.next(), buffers.next());
                return row -> new String((byte[]) texts.get(row), StandardCharsets.UTF_8);
            case "decimal":
                return numbers(bytes(buffers.next(), buffers.next()), schema);
            case "bytes":
                return bytes(buffers.next(), buffers.next());
            case "struct":
                return structs(described, schema, buffers);
            case "list":
                ByteBuffer ends = buffers.next();
                Column items = read(part(described, "items"), schema == null ? null : schema.valueSchema(), buffers);
                return row -> list(ends, items, row);
            case "map":
                return maps(described, schema, buffers);
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

    private static Column decimals(ByteBuffer data, boolean single) {
        if (single) {
            return row -> (float) data.getDouble(8 * row);
        }
        return row -> data.getDouble(8 * row);
    }

    private static Column numbers(Column bytes, Schema schema) {
        String scale = schema == null || schema.parameters() == null ? null : schema.parameters().get(Decimal.SCALE_FIELD);
        return row -> {
            BigDecimal number = new BigDecimal(new String((byte[]) bytes.get(row), StandardCharsets.US_ASCII));
            return scale == null ? number : number.setScale(Integer.parseInt(scale));
        };
    }

    private static Column bytes(ByteBuffer ends, ByteBuffer data) {
        int before = ends.getInt(0);
        return row -> {
            int from = ends.getInt(4 * row);
            byte[] found = new byte[ends.getInt(4 * row + 4) - from];
            data.get(from - before, found);
            return found;
        };
    }

    private static Column structs(Map<String, Object> described, Schema schema, Iterator<ByteBuffer> buffers) {
        Map<String, Column> columns = new LinkedHashMap<>();
        for (Object each : (List<?>) described.get("fields")) {
            Map<String, Object> field = object(each);
            String name = (String) field.get("name");
            Field known = schema == null ? null : schema.field(name);
            columns.put(name, read(part(field, "column"), known == null ? null : known.schema(), buffers));
        }
        if (schema == null) {
            return row -> {
                Map<String, Object> made = new LinkedHashMap<>();
                columns.forEach((name, column) -> made.put(name, column.get(row)));
                return made;
            };
        }
        return row -> {
            Struct made = new Struct(schema);
            columns.forEach((name, column) -> made.put(name, column.get(row)));
            return made;
        };
    }

    private static Column maps(Map<String, Object> described, Schema schema, Iterator<ByteBuffer> buffers) {
        ByteBuffer ends = buffers.next();
        Column keys = read(part(described, "keys"), schema == null ? null : schema.keySchema(), buffers);
        Column items = read(part(described, "items"), schema == null ? null : schema.valueSchema(), buffers);
        return row -> {
            List<Object> ofKeys = list(ends, keys, row);
            List<Object> ofItems = list(ends, items, row);
            Map<Object, Object> made = new LinkedHashMap<>();
            for (int at = 0; at < ofKeys.size(); at++) {
                made.put(ofKeys.get(at), ofItems.get(at));
            }
            return made;
        };
    }

    private static List<Object> list(ByteBuffer ends, Column items, int row) {
        int before = ends.getInt(0);
        List<Object> made = new ArrayList<>();
        for (int at = ends.getInt(4 * row); at < ends.getInt(4 * row + 4); at++) {
            made.add(items.get(at - before));
        }
        return made;
    }

    private static Map<String, Object> part(Map<String, Object> described, String name) {
        return object(described.get(name));
    }

    @SuppressWarnings("unchecked")
    static Map<String, Object> object(Object given) {
        return (Map<String, Object>) given;
    }
}
