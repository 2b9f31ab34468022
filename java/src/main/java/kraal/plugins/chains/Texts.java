package kraal.plugins.chains;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import java.io.IOException;
import java.io.StringWriter;
import java.io.UncheckedIOException;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Collection;
import java.util.Date;
import java.util.Map;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Struct;

/** The formats in which a Python sink receives values; the same as in {@code sink_pass.py}. */
enum Texts {
    /** The format of {@code toString}; bytes are unchanged, because Java would print an address. */
    PRINTED {
        @Override
        byte[] text(Object value) {
            return String.valueOf(value).getBytes(StandardCharsets.UTF_8);
        }
    },
    /** Plain JSON: structs as objects, bytes as base64, times in milliseconds, decimals as text. */
    JSON {
        @Override
        byte[] text(Object value) throws IOException {
            StringWriter text = new StringWriter();
            try (JsonGenerator into = FACTORY.createGenerator(text)) {
                write(value, into);
            }
            return text.toString().getBytes(StandardCharsets.UTF_8);
        }
    };

    private static final JsonFactory FACTORY = new JsonFactory();

    /** Serializes a value; null stays null. */
    byte[] of(Object value) {
        try {
            if (value == null) {
                return null;
            }
            byte[] known = this == PRINTED ? bytes(value) : null;
            return known == null ? text(value) : known;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    abstract byte[] text(Object value) throws IOException;

    private static byte[] bytes(Object value) {
        if (value instanceof ByteBuffer buffer) {
            byte[] found = new byte[buffer.remaining()];
            buffer.duplicate().get(found);
            return found;
        }
        return value instanceof byte[] found ? found : null;
    }

    private static void write(Object value, JsonGenerator into) throws IOException {
        if (value == null) {
            into.writeNull();
        } else if (value instanceof Struct struct) {
            into.writeStartObject();
            for (Field field : struct.schema().fields()) {
                into.writeFieldName(field.name());
                write(struct.get(field), into);
            }
            into.writeEndObject();
        } else if (value instanceof Map<?, ?> map) {
            into.writeStartObject();
            for (Map.Entry<?, ?> each : map.entrySet()) {
                into.writeFieldName(String.valueOf(each.getKey()));
                write(each.getValue(), into);
            }
            into.writeEndObject();
        } else if (value instanceof Collection<?> list) {
            into.writeStartArray();
            for (Object each : list) {
                write(each, into);
            }
            into.writeEndArray();
        } else {
            writeSimple(value, into);
        }
    }

    private static void writeSimple(Object value, JsonGenerator into) throws IOException {
        byte[] bytes = bytes(value);
        if (bytes != null) {
            into.writeString(Base64.getEncoder().encodeToString(bytes));
        } else if (value instanceof Boolean known) {
            into.writeBoolean(known);
        } else if (value instanceof Date time) {
            into.writeNumber(time.getTime());
        } else if (value instanceof BigDecimal || isNoNumber(value)) {
            into.writeString(value.toString());
        } else if (value instanceof Float single) {
            into.writeNumber(single);
        } else if (value instanceof Double number) {
            into.writeNumber(number);
        } else if (value instanceof BigInteger number) {
            into.writeNumber(number);
        } else if (value instanceof Number number) {
            into.writeNumber(number.longValue());
        } else {
            into.writeString(value.toString());
        }
    }

    private static boolean isNoNumber(Object value) {
        return value instanceof Double number && !Double.isFinite(number)
            || value instanceof Float single && !Float.isFinite(single);
    }
}
