package kraal;

import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.expressions.UserDefinedFunction;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;

/** Writes strings as JSON strings, as Jackson does. */
public final class JsonQuote implements UDF1 {
    private static final char[] DIGITS = "0123456789ABCDEF".toCharArray();

    public UserDefinedFunction function() {
        return functions.udf((UDF1) this, DataTypes.StringType);
    }

    public Object call(Object value) {
        if (value == null) {
            return null;
        }
        String text = (String) value;
        int length = text.length();
        for (int index = 0; index < length; index++) {
            if (isEscaped(text.charAt(index))) {
                return escape(text, index);
            }
        }
        return new StringBuilder(length + 2).append('"').append(text).append('"').toString();
    }

    private static boolean isEscaped(char character) {
        return character < ' ' || character == '"' || character == '\\' || Character.isSurrogate(character);
    }

    private static String escape(String text, int first) {
        StringBuilder out = new StringBuilder(text.length() + 16).append('"').append(text, 0, first);
        for (int index = first; index < text.length(); index++) {
            char character = text.charAt(index);
            if (!isEscaped(character)) {
                out.append(character);
                continue;
            }
            out.append('\\');
            switch (character) {
            case '"': case '\\': out.append(character); break;
            case '\b': out.append('b'); break;
            case '\t': out.append('t'); break;
            case '\n': out.append('n'); break;
            case '\f': out.append('f'); break;
            case '\r': out.append('r'); break;
            default:
                out.append('u');
                for (int shift = 12; shift >= 0; shift -= 4) {
                    out.append(DIGITS[(character >> shift) & 15]);
                }
            }
        }
        return out.append('"').toString();
    }
}
