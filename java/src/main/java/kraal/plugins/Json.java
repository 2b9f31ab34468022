package kraal.plugins;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Parses and serializes JSON exchanged with Python. Integers are parsed as long, as in Connect's converters. */
public final class Json {
    private static final ObjectMapper MAPPER =
        new ObjectMapper().configure(DeserializationFeature.USE_LONG_FOR_INTS, true);

    private Json() {
    }

    public static String text(Object value) {
        try {
            return MAPPER.writeValueAsString(value);
        } catch (JsonProcessingException e) {
            throw new IllegalArgumentException(e);
        }
    }

    public static Map<String, Object> object(String text) {
        return read(text, new TypeReference<Map<String, Object>>() { });
    }

    public static Map<String, String> strings(Object value) {
        return MAPPER.convertValue(value, new TypeReference<Map<String, String>>() { });
    }

    public static Map<String, String> strings(String text) {
        return read(text, new TypeReference<Map<String, String>>() { });
    }

    static List<Map<String, String>> listOfStrings(Object value) {
        return MAPPER.convertValue(value, new TypeReference<List<Map<String, String>>>() { });
    }

    static Set<String> texts(String text) {
        return read(text, new TypeReference<Set<String>>() { });
    }

    /** Parses pairs of a partition and its offset, both JSON objects; a null offset stays null. */
    static List<List<Map<String, Object>>> pairs(String text) {
        return read(text, new TypeReference<List<List<Map<String, Object>>>>() { });
    }

    /** Parses pairs of strings; the second string may be null. */
    static List<List<String>> textPairs(String text) {
        return read(text, new TypeReference<List<List<String>>>() { });
    }

    private static <T> T read(String text, TypeReference<T> type) {
        try {
            return MAPPER.readValue(text, type);
        } catch (JsonProcessingException e) {
            throw new IllegalArgumentException(e);
        }
    }
}
