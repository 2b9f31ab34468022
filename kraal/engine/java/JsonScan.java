package kraal;

import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** Parses JSON documents of a given form; returns null for any other document, which from_json must parse. */
public final class JsonScan implements Serializable {
    private static final Object FAILED = new Object();
    private static final byte[] NULL = ascii("null");
    private static final byte[] TRUE = ascii("true");
    private static final byte[] FALSE = ascii("false");
    private static final byte[] END = ascii("}");
    private static final double[] TENS = {
        1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15
    };

    private final byte[] prefix;
    private final byte[] suffix;
    private final Node root;

    public JsonScan(byte[] prefix, String suffix, String ddl) {
        this.prefix = prefix;
        this.suffix = ascii(suffix);
        this.root = new Node(new byte[0], DataType.fromDDL(ddl));
    }

    public InternalRow read(byte[] value) {
        Cursor text = new Cursor(value);
        if (!text.consume(prefix)) {
            return null;
        }
        Object result = root.read(text);
        boolean isParsed = result != FAILED && text.consume(suffix) && text.position == text.data.length;
        return isParsed ? (InternalRow) result : null;
    }

    static byte[] ascii(String text) {
        return text.getBytes(StandardCharsets.US_ASCII);
    }

    static final class Cursor {
        final byte[] data;
        int position;

        Cursor(byte[] data) {
            this.data = data;
        }

        int next() {
            return position < data.length ? (int) data[position] : 0;
        }

        boolean consume(byte[] expected) {
            int end = position + expected.length;
            if (end > data.length || !Arrays.equals(data, position, end, expected, 0, expected.length)) {
                return false;
            }
            position = end;
            return true;
        }
    }

    static final class Node implements Serializable {
        private final byte[] prefix;
        private final String kind;
        private final Node[] fields;

        Node(byte[] prefix, DataType type) {
            this.prefix = prefix;
            this.kind = type.typeName();
            StructField[] all = type instanceof StructType ? ((StructType) type).fields() : new StructField[0];
            this.fields = new Node[all.length];
            for (int i = 0; i < all.length; i++) {
                String name = (i == 0 ? "{" : ",") + '"' + all[i].name() + "\":";
                this.fields[i] = new Node(ascii(name), all[i].dataType());
            }
        }

        Object read(Cursor text) {
            if (text.next() == 'n') {
                return text.consume(NULL) ? null : FAILED;
            }
            if (fields.length > 0) {
                return readStruct(text);
            }
            if (kind.equals("string")) {
                return readString(text);
            }
            if (kind.equals("boolean")) {
                return text.consume(TRUE) ? Boolean.TRUE : text.consume(FALSE) ? Boolean.FALSE : FAILED;
            }
            return kind.equals("double") ? readDouble(text) : readInteger(text);
        }

        private Object readStruct(Cursor text) {
            Object[] values = new Object[fields.length];
            for (int i = 0; i < fields.length; i++) {
                if (!text.consume(fields[i].prefix)) {
                    return FAILED;
                }
                values[i] = fields[i].read(text);
                if (values[i] == FAILED) {
                    return FAILED;
                }
            }
            return text.consume(END) ? new GenericInternalRow(values) : FAILED;
        }

        private static Object readString(Cursor text) {
            if (text.next() != '"') {
                return FAILED;
            }
            byte[] data = text.data;
            int start = text.position + 1;
            int end = start;
            boolean isAscii = true;
            while (end < data.length && data[end] != '"') {
                byte current = data[end++];
                if (current < 0) {
                    isAscii = false;
                } else if (current < ' ' || current == '\\') {
                    return FAILED;
                }
            }
            if (end >= data.length) {
                return FAILED;
            }
            text.position = end + 1;
            if (isAscii || new String(data, start, end - start, StandardCharsets.UTF_8).indexOf('\uFFFD') < 0) {
                return UTF8String.fromBytes(data, start, end - start);
            }
            return FAILED;
        }

        private static Object readDouble(Cursor text) {
            int start = text.position;
            double shortNumber = parseShort(text);
            if (shortNumber != 0.0) {
                return Double.valueOf(shortNumber);
            }
            text.position = start;
            while (isNumberCharacter(text.next())) {
                text.position++;
            }
            if (text.position == start) {
                return FAILED;
            }
            String number = new String(text.data, start, text.position - start, StandardCharsets.ISO_8859_1);
            if (number.equals("-0.0")) {
                return FAILED;
            }
            try {
                double value = Double.parseDouble(number);
                return Double.toString(value).equals(number) ? (Object) Double.valueOf(value) : FAILED;
            } catch (NumberFormatException e) {
                return FAILED;
            }
        }

        /** Parses most decimals of at most 15 digits, by a correctly rounded division; returns 0 for any other text. */
        private static double parseShort(Cursor text) {
            boolean negative = text.next() == '-';
            if (negative) {
                text.position++;
            }
            int start = text.position;
            long value = readDigits(text, 0);
            int whole = text.position - start;
            if (whole == 0 || whole > 7 || text.data[start] == '0' && whole > 1 || text.next() != '.') {
                return 0.0;
            }
            text.position++;
            value = readDigits(text, value);
            int decimals = text.position - start - whole - 1;
            if (decimals == 0 || whole + decimals > 15 || isNumberCharacter(text.next())) {
                return 0.0;
            }
            if (decimals > 1 && text.data[text.position - 1] == '0') {
                return 0.0;
            }
            double result = value / TENS[decimals];
            return result < 0.01 ? 0.0 : negative ? -result : result;
        }

        private static long readDigits(Cursor text, long value) {
            int limit = text.position + 15;
            while (text.position < limit && text.next() >= '0' && text.next() <= '9') {
                value = 10 * value + (text.next() - '0');
                text.position++;
            }
            return value;
        }

        private static boolean isNumberCharacter(int character) {
            return character >= '0' && character <= '9' || character == '.' || character == '-' || character == 'E';
        }

        private Object readInteger(Cursor text) {
            boolean negative = text.next() == '-';
            if (negative) {
                text.position++;
            }
            int start = text.position;
            long value = 0;
            while (text.next() >= '0' && text.next() <= '9') {
                value = 10 * value + (text.next() - '0');
                text.position++;
                if (text.position - start > 18) {
                    return FAILED;
                }
            }
            int digits = text.position - start;
            if (digits == 0 || text.data[start] == '0' && (digits > 1 || negative)) {
                return FAILED;
            }
            return box(negative ? -value : value);
        }

        private Object box(long value) {
            if (kind.equals("long")) {
                return Long.valueOf(value);
            }
            if (kind.equals("integer")) {
                return value == (int) value ? (Object) Integer.valueOf((int) value) : FAILED;
            }
            if (kind.equals("short")) {
                return value == (short) value ? (Object) Short.valueOf((short) value) : FAILED;
            }
            return value == (byte) value ? (Object) Byte.valueOf((byte) value) : FAILED;
        }
    }
}
