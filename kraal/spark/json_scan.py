"""JSON of a known look to columns, in Spark's JVM: a function of ours, for records as most are.

It reads a text only if it is, byte for byte, what writing its value gives again: fields in their order, no blanks,
numbers as Java writes them, strings without escapes. All other texts are null here, and Spark's `from_json` has them,
which takes longer. So this decides nothing: what it reads, `from_json` reads the same. The class is compiled when a
session first needs it (`kraal.spark.janino`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kraal.plugins.schema import Schema, Type
from kraal.spark.janino import called

if TYPE_CHECKING:
    from pyspark.sql import Column

_CLASS: Final = "kraal.JsonScan"
_NAME: Final = re.compile(r"[ !#-\[\]-~]+")
"""Names of fields that JSON writes as they are."""
_SINGLE: Final = frozenset(
    {Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT64, Type.BOOLEAN, Type.STRING}
)
_SOURCE: Final = """
package kraal;

import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.catalyst.expressions.GenericRow;
import org.apache.spark.sql.expressions.UserDefinedFunction;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

public final class JsonScan implements UDF1 {
    private static final Object FAILED = new Object();
    private static final byte[] NULL = ascii("null");
    private static final byte[] TRUE = ascii("true");
    private static final byte[] FALSE = ascii("false");
    private static final byte[] END = ascii("}");

    private byte[] before;
    private byte[] after;
    private Node root;

    public UserDefinedFunction of(byte[] before, String after, String ddl) {
        this.before = before;
        this.after = ascii(after);
        DataType type = DataType.fromDDL(ddl);
        this.root = new Node(new byte[0], type);
        return functions.udf((UDF1) this, type);
    }

    public Object call(Object value) {
        if (value == null) {
            return null;
        }
        Cursor text = new Cursor((byte[]) value);
        if (!text.takes(before)) {
            return null;
        }
        Object found = root.read(text);
        return found != FAILED && text.takes(after) && text.at == text.data.length ? found : null;
    }

    static byte[] ascii(String text) {
        return text.getBytes(StandardCharsets.US_ASCII);
    }

    static final class Cursor {
        final byte[] data;
        int at;

        Cursor(byte[] data) {
            this.data = data;
        }

        int next() {
            return at < data.length ? (int) data[at] : 0;
        }

        boolean takes(byte[] wanted) {
            if (data.length - at < wanted.length) {
                return false;
            }
            for (int i = 0; i < wanted.length; i++) {
                if (data[at + i] != wanted[i]) {
                    return false;
                }
            }
            at += wanted.length;
            return true;
        }
    }

    static final class Node implements Serializable {
        private final byte[] lead;
        private final String kind;
        private final Node[] fields;

        Node(byte[] lead, DataType type) {
            this.lead = lead;
            this.kind = type.typeName();
            StructField[] all = type instanceof StructType ? ((StructType) type).fields() : new StructField[0];
            this.fields = new Node[all.length];
            for (int i = 0; i < all.length; i++) {
                String name = (i == 0 ? "{" : ",") + '"' + all[i].name() + "\\":";
                this.fields[i] = new Node(ascii(name), all[i].dataType());
            }
        }

        Object read(Cursor text) {
            if (text.next() == 'n') {
                return text.takes(NULL) ? null : FAILED;
            }
            if (fields.length > 0) {
                return struct(text);
            }
            if (kind.equals("string")) {
                return string(text);
            }
            if (kind.equals("boolean")) {
                return text.takes(TRUE) ? Boolean.TRUE : text.takes(FALSE) ? Boolean.FALSE : FAILED;
            }
            return kind.equals("double") ? real(text) : whole(text);
        }

        private Object struct(Cursor text) {
            Object[] values = new Object[fields.length];
            for (int i = 0; i < fields.length; i++) {
                if (!text.takes(fields[i].lead)) {
                    return FAILED;
                }
                values[i] = fields[i].read(text);
                if (values[i] == FAILED) {
                    return FAILED;
                }
            }
            return text.takes(END) ? new GenericRow(values) : FAILED;
        }

        private static Object string(Cursor text) {
            if (text.next() != '"') {
                return FAILED;
            }
            byte[] data = text.data;
            int start = text.at + 1;
            int end = start;
            boolean isAscii = true;
            while (end < data.length && data[end] != '"') {
                byte one = data[end++];
                if (one < 0) {
                    isAscii = false;
                } else if (one < ' ' || one == '\\\\') {
                    return FAILED;
                }
            }
            if (end >= data.length) {
                return FAILED;
            }
            text.at = end + 1;
            if (isAscii) {
                return new String(data, start, end - start, StandardCharsets.ISO_8859_1);
            }
            String found = new String(data, start, end - start, StandardCharsets.UTF_8);
            return found.indexOf('\\uFFFD') < 0 ? found : FAILED;
        }

        private static Object real(Cursor text) {
            int start = text.at;
            while (isOfNumber(text.next())) {
                text.at++;
            }
            if (text.at == start) {
                return FAILED;
            }
            String found = new String(text.data, start, text.at - start, StandardCharsets.ISO_8859_1);
            try {
                double value = Double.parseDouble(found);
                return Double.toString(value).equals(found) ? (Object) Double.valueOf(value) : FAILED;
            } catch (NumberFormatException e) {
                return FAILED;
            }
        }

        private static boolean isOfNumber(int letter) {
            return letter >= '0' && letter <= '9' || letter == '.' || letter == '-' || letter == 'E';
        }

        private Object whole(Cursor text) {
            boolean negative = text.next() == '-';
            if (negative) {
                text.at++;
            }
            int start = text.at;
            long value = 0;
            while (text.next() >= '0' && text.next() <= '9') {
                value = 10 * value + (text.next() - '0');
                text.at++;
                if (text.at - start > 18) {
                    return FAILED;
                }
            }
            int digits = text.at - start;
            if (digits == 0 || text.data[start] == '0' && (digits > 1 || negative)) {
                return FAILED;
            }
            return boxed(negative ? -value : value);
        }

        private Object boxed(long value) {
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
"""


def can_scan(schema: Schema) -> bool:
    """Tell whether texts of a schema can be read: structs of single values and of structs, fields with plain names."""
    if schema.type is not Type.STRUCT:
        return False
    return bool(schema.fields) and all(
        _NAME.fullmatch(each.name) is not None and (each.schema.type in _SINGLE or can_scan(each.schema))
        for each in schema.fields
    )


def scanned(raw: Column, before: bytes, after: str, ddl: str) -> Column:
    """Return a column of structs: what is between `before` and `after` in bytes; null where `from_json` has to look.

    `ddl`: the struct's type, of a schema that `can_scan`. Job thread.
    """
    return called(_CLASS, _SOURCE, lambda made: made.of(before, after, ddl), raw)
