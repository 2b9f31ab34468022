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

/** The formats in which a Python sink receives values; must match {@code sink_pass.py}. */
enum Texts {
    /** The format of {@code toString}; bytes are unchanged, because {@code toString} would not return their content. */
    PRINTED {
        @Override
        byte[] text(Object value) {
            return String.valueOf(value).getBytes(StandardCharsets.UTF_8);
        }
    },
    /** Plain JSON: structs as objects, bytes as base64, times in milliseconds, decimals and non-finite numbers as strings. */
    JSON {
        @Override
        byte[] text(Object value) throws IOException {
            StringWriter text = new StringWriter();
            try (JsonGenerator json = FACTORY.createGenerator(text)) {
                write(value, json);
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
            byte[] bytes = this == PRINTED ? bytes(value) : null;
            return bytes == null ? text(value) : bytes;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    abstract byte[] text(Object value) throws IOException;

    private static byte[] bytes(Object value) {
        if (value instanceof ByteBuffer buffer) {
            byte[] copy = new byte[buffer.remaining()];
            buffer.duplicate().get(copy);
            return copy;
        }
        return value instanceof byte[] array ? array : null;
    }

    private static void write(Object value, JsonGenerator json) throws IOException {
        if (value == null) {
            json.writeNull();
        } else if (value instanceof Struct struct) {
            json.writeStartObject();
            for (Field field : struct.schema().fields()) {
                json.writeFieldName(field.name());
                write(struct.get(field), json);
            }
            json.writeEndObject();
        } else if (value instanceof Map<?, ?> map) {
            json.writeStartObject();
            for (Map.Entry<?, ?> entry : map.entrySet()) {
                json.writeFieldName(String.valueOf(entry.getKey()));
                write(entry.getValue(), json);
            }
            json.writeEndObject();
        } else if (value instanceof Collection<?> list) {
            json.writeStartArray();
            for (Object item : list) {
                write(item, json);
            }
            json.writeEndArray();
        } else {
            writeSimple(value, json);
        }
    }

    private static void writeSimple(Object value, JsonGenerator json) throws IOException {
        byte[] bytes = bytes(value);
        if (bytes != null) {
            json.writeString(Base64.getEncoder().encodeToString(bytes));
        } else if (value instanceof Boolean flag) {
            json.writeBoolean(flag);
        } else if (value instanceof Date time) {
            json.writeNumber(time.getTime());
        } else if (value instanceof BigDecimal || isNotFinite(value)) {
            json.writeString(value.toString());
        } else if (value instanceof Float single) {
            json.writeNumber(single);
        } else if (value instanceof Double number) {
            json.writeNumber(number);
        } else if (value instanceof BigInteger number) {
            json.writeNumber(number);
        } else if (value instanceof Number number) {
            json.writeNumber(number.longValue());
        } else {
            json.writeString(value.toString());
        }
    }

    private static boolean isNotFinite(Object value) {
        return value instanceof Double number && !Double.isFinite(number)
            || value instanceof Float single && !Float.isFinite(single);
    }
}
