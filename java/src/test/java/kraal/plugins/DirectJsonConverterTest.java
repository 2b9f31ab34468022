package kraal.plugins;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Date;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.data.Decimal;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.data.Time;
import org.apache.kafka.connect.data.Timestamp;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.storage.Converter;
import org.junit.jupiter.api.Test;

/** Tests that output and errors of {@link DirectJsonConverter} match Kafka's JsonConverter. */
final class DirectJsonConverterTest {
    private static final List<Map<String, String>> CONFIGS = List.of(
        Map.of("schemas.enable", "true"),
        Map.of("schemas.enable", "false"),
        Map.of("schemas.enable", "true", "decimal.format", "NUMERIC", "schemas.cache.size", "1"),
        Map.of("schemas.enable", "false", "replace.null.with.default", "false"));
    private static final Schema ADDRESS = SchemaBuilder.struct().name("Address").version(2).doc("where")
        .field("street", Schema.OPTIONAL_STRING_SCHEMA)
        .field("number", SchemaBuilder.int32().defaultValue(7).optional().build()).optional().build();
    private static final Schema PERSON = SchemaBuilder.struct().name("Person \"quoted\"").parameter("key", "väl")
        .field("näme", Schema.STRING_SCHEMA).field("line\nend", Schema.OPTIONAL_INT64_SCHEMA)
        .field("home", ADDRESS).field("work", ADDRESS)
        .field("tags", SchemaBuilder.array(Schema.OPTIONAL_STRING_SCHEMA).optional().build())
        .field("scores", SchemaBuilder.map(Schema.STRING_SCHEMA, Schema.OPTIONAL_FLOAT64_SCHEMA).optional().build())
        .field("born", Timestamp.builder().optional().build()).build();

    @Test
    void valuesOfAllTypesMatchKafka() throws Exception {
        List<SchemaAndValue> cases = new ArrayList<>(List.of(
            value(Schema.INT8_SCHEMA, (byte) -128), value(Schema.INT16_SCHEMA, (short) 32767),
            value(Schema.INT32_SCHEMA, Integer.MIN_VALUE), value(Schema.INT64_SCHEMA, Long.MAX_VALUE),
            value(Schema.FLOAT32_SCHEMA, 0.1f), value(Schema.FLOAT32_SCHEMA, Float.NaN),
            value(Schema.FLOAT64_SCHEMA, 1e300), value(Schema.FLOAT64_SCHEMA, Double.NEGATIVE_INFINITY),
            value(Schema.FLOAT64_SCHEMA, -0.0), value(Schema.BOOLEAN_SCHEMA, true),
            value(Schema.STRING_SCHEMA, "déjà \u0000 \" \\ / \u2028 \ud83d\ude00 </script>"),
            value(Schema.STRING_SCHEMA, ""), value(Schema.STRING_SCHEMA, "x".repeat(100_000)),
            value(Schema.BYTES_SCHEMA, new byte[] {0, -1, 62, 63}), value(Schema.BYTES_SCHEMA, new byte[0]),
            value(Schema.BYTES_SCHEMA, ByteBuffer.wrap(new byte[] {1, 2, 3, 4}, 1, 2)),
            value(Decimal.schema(3), new BigDecimal("-12345678901234567890.125")),
            value(Decimal.schema(-2), new BigDecimal("1E+2")), value(Decimal.schema(9), new BigDecimal("1E-9")),
            value(org.apache.kafka.connect.data.Date.SCHEMA, new Date(86_400_000L * 365)),
            value(Time.SCHEMA, new Date(1234)), value(Timestamp.SCHEMA, new Date(-1)),
            value(Schema.OPTIONAL_STRING_SCHEMA, null),
            value(SchemaBuilder.int32().defaultValue(5).optional().build(), null)));
        cases.add(value(null, Arrays.asList(1, "two", null, 3.0, List.of(), new byte[] {1})));
        cases.add(value(null, new LinkedHashMap<>(Map.of("key", Map.of("inner", true)))));
        cases.add(value(SchemaBuilder.map(Schema.STRING_SCHEMA, Schema.INT8_SCHEMA).build(), Map.of("one", (byte) 1)));
        for (SchemaAndValue input : cases) {
            assertSerializedDirectly(input);
        }
    }

    @Test
    void mapsWithNonStringKeysAndMutableSchemasMatchKafka() throws Exception {
        for (SchemaAndValue input : List.of(
            value(null, Map.of(1, "one")), value(null, new LinkedHashMap<>(Map.of("a", 1, 2, "b"))),
            value(SchemaBuilder.map(Schema.INT32_SCHEMA, Schema.STRING_SCHEMA).build(), Map.of(1, "one")),
            value(SchemaBuilder.array(Schema.INT32_SCHEMA), List.of(1, 2)))) {
            assertSameResult(input);
        }
    }

    @Test
    void nestedStructsMatchKafka() throws Exception {
        Struct full = new Struct(PERSON).put("näme", "Zoë").put("line\nend", 1L)
            .put("home", new Struct(ADDRESS).put("street", "Long").put("number", 1)).put("work", new Struct(ADDRESS))
            .put("tags", Arrays.asList("a", null)).put("scores", new LinkedHashMap<>(Map.of("x", 1.5)))
            .put("born", new Date(0));
        assertSerializedDirectly(value(PERSON, full));
        assertSerializedDirectly(value(PERSON, new Struct(PERSON).put("näme", "")));
        assertSerializedDirectly(value(SchemaBuilder.array(ADDRESS).build(), List.of(new Struct(ADDRESS), new Struct(ADDRESS))));
    }

    @Test
    void alternatingAndEqualSchemasMatchKafka() throws Exception {
        JsonConverter kafkaConverter = newKafkaConverter(Map.of("schemas.cache.size", "1"));
        DirectJsonConverter direct = new DirectJsonConverter(newKafkaConverter(Map.of("schemas.cache.size", "1")));
        for (int i = 0; i < 6; i++) {
            Schema schema = SchemaBuilder.struct().name("S" + i % 2).field("f" + i % 3, Schema.INT32_SCHEMA).build();
            Struct struct = new Struct(schema).put("f" + i % 3, i);
            assertEquals(text(kafkaConverter.fromConnectData("t", schema, struct)), text(direct.fromConnectData("t", schema, struct)));
        }
    }

    @Test
    void errorsMatchKafka() throws Exception {
        Map<Object, Object> nullKey = new HashMap<>();
        nullKey.put(null, 1);
        Schema other = SchemaBuilder.struct().field("a", Schema.INT32_SCHEMA).build();
        for (SchemaAndValue input : List.of(
            value(Schema.INT32_SCHEMA, "text"), value(Schema.INT32_SCHEMA, null), value(SchemaBuilder.int32().defaultValue(5).build(), null),
            value(Schema.STRING_SCHEMA, 5),
            value(Schema.STRING_SCHEMA, "half a \ud83d"), value(Schema.BYTES_SCHEMA, "text"),
            value(PERSON, new Struct(PERSON)), value(PERSON, new Struct(other)), value(PERSON, Map.of()),
            value(Decimal.schema(1), 1.5), value(Decimal.schema(1), new BigDecimal("0.25")), value(Time.SCHEMA, 5),
            value(Time.SCHEMA, new Date(86_400_000L)), value(null, new Object()), value(null, nullKey),
            value(SchemaBuilder.map(Schema.STRING_SCHEMA, Schema.INT32_SCHEMA).build(), Map.of(1, 1)))) {
            assertSameResult(input);
        }
    }

    @Test
    void nullStaysNull() throws Exception {
        assertNull(new DirectJsonConverter(newKafkaConverter(Map.of())).fromConnectData("t", null, null));
    }

    @Test
    void deserializationMatchesKafka() throws Exception {
        byte[] bytes = "{\"schema\":{\"type\":\"int32\"},\"payload\":5}".getBytes(StandardCharsets.UTF_8);
        assertEquals(
            newKafkaConverter(Map.of()).toConnectData("t", bytes),
            new DirectJsonConverter(newKafkaConverter(Map.of())).toConnectData("t", bytes));
    }

    /** Fails if the converter delegates the value to Kafka's, or writes different bytes. */
    private static void assertSerializedDirectly(SchemaAndValue input) throws Exception {
        for (Map<String, String> config : CONFIGS) {
            JsonConverter failingDelegate = new JsonConverter() {
                @Override
                public byte[] fromConnectData(String topic, Schema schema, Object value) {
                    throw new AssertionError("delegated to Kafka's converter: " + value);
                }
            };
            failingDelegate.configure(config, false);
            DirectJsonConverter direct = new DirectJsonConverter(failingDelegate);
            String expected = serialize(newKafkaConverter(config), input);
            for (int i = 0; i < 2; i++) {
                assertEquals(expected, serialize(direct, input), config::toString);
            }
        }
    }

    private static void assertSameResult(SchemaAndValue input) throws Exception {
        for (Map<String, String> config : CONFIGS) {
            Converter direct = new DirectJsonConverter(newKafkaConverter(config));
            assertEquals(serialize(newKafkaConverter(config), input), serialize(direct, input), config::toString);
        }
    }

    /** Returns the output of a converter, or its exception. */
    private static String serialize(Converter converter, SchemaAndValue input) {
        try {
            return text(converter.fromConnectData("t", input.schema(), input.value()));
        } catch (RuntimeException e) {
            return e + ", caused by " + e.getCause();
        }
    }

    private static JsonConverter newKafkaConverter(Map<String, String> config) {
        JsonConverter converter = new JsonConverter();
        converter.configure(config, false);
        return converter;
    }

    private static SchemaAndValue value(Schema schema, Object value) {
        return new SchemaAndValue(schema, value);
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
    }
}
