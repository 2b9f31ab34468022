import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TimeZone;
import org.apache.kafka.connect.data.ConnectSchema;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;

/**
 * Runs Kafka's converters on the cases in the JSON file that the argument names, and prints the results.
 *
 * <p>A value is `null`, or an object with one member that is named after the Java class. A schema is an object with only those
 * attributes that are set. Python code generates the cases and reads the results.
 */
public class ConverterCases {
    private static final JsonNodeFactory NODES = JsonNodeFactory.withExactBigDecimals(true);

    public static void main(String[] arguments) throws Exception {
        TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
        ObjectMapper mapper = new ObjectMapper();
        ArrayNode results = NODES.arrayNode();
        for (JsonNode testCase : mapper.readTree(new File(arguments[0]))) {
            results.add(runCase(testCase));
        }
        System.out.println(mapper.writeValueAsString(results));
    }

    private static ObjectNode runCase(JsonNode testCase) {
        ObjectNode result = NODES.objectNode();
        try {
            Object converter = Class.forName(testCase.get("converter").asText()).getDeclaredConstructor().newInstance();
            Map<String, String> config = new HashMap<>();
            testCase.get("config").fields().forEachRemaining(entry -> config.put(entry.getKey(), entry.getValue().asText()));
            boolean isHeader = converter instanceof HeaderConverter && testCase.get("header").asBoolean();
            if (isHeader) {
                config.put("converter.type", "header");
                ((HeaderConverter) converter).configure(config);
            } else {
                ((Converter) converter).configure(config, false);
            }
            if (testCase.has("data")) {
                JsonNode data = testCase.get("data");
                byte[] bytes = data.isNull() ? null : Base64.getDecoder().decode(data.asText());
                SchemaAndValue decoded = isHeader
                    ? ((HeaderConverter) converter).toConnectHeader("topic", "name", bytes)
                    : ((Converter) converter).toConnectData("topic", bytes);
                result.set("schema", describeSchema(decoded == null ? null : decoded.schema()));
                result.set("value", describeValue(decoded == null ? null : decoded.value()));
            } else {
                Schema schema = parseSchema(testCase.get("schema"));
                Object value = parseValue(schema, testCase.get("value"));
                byte[] bytes = isHeader
                    ? ((HeaderConverter) converter).fromConnectHeader("topic", "name", schema, value)
                    : ((Converter) converter).fromConnectData("topic", schema, value);
                result.set("data", bytes == null ? NODES.nullNode() : describeBytes(bytes));
            }
        } catch (Exception e) {
            result.removeAll();
            result.put("exception", e.getClass().getSimpleName());
            result.put("error", e.getMessage());
        }
        return result;
    }

    private static JsonNode describeBytes(byte[] bytes) {
        String text = new String(bytes, StandardCharsets.UTF_8);
        boolean isUtf8 = Arrays.equals(text.getBytes(StandardCharsets.UTF_8), bytes);
        return isUtf8 ? NODES.objectNode().put("text", text) : NODES.objectNode().put("hex", HexFormat.of().formatHex(bytes));
    }

    private static Schema parseSchema(JsonNode node) {
        if (node == null || node.isNull()) {
            return null;
        }
        Schema.Type type = Schema.Type.valueOf(node.get("type").asText());
        Map<String, String> parameters = null;
        if (node.has("parameters")) {
            Map<String, String> entries = new LinkedHashMap<>();
            node.get("parameters").fields().forEachRemaining(entry -> entries.put(entry.getKey(), entry.getValue().asText()));
            parameters = entries;
        }
        List<Field> fields = new ArrayList<>();
        if (node.has("fields")) {
            for (JsonNode fieldNode : node.get("fields")) {
                fields.add(new Field(fieldNode.get("name").asText(), fields.size(), parseSchema(fieldNode.get("schema"))));
            }
        }
        String name = node.has("name") ? node.get("name").asText() : null;
        Integer version = node.has("version") ? node.get("version").asInt() : null;
        String doc = node.has("doc") ? node.get("doc").asText() : null;
        boolean optional = node.has("optional");
        Schema key = parseSchema(node.get("key"));
        Schema value = parseSchema(node.get("value"));
        Schema withoutDefault = new ConnectSchema(type, optional, null, name, version, doc, parameters, fields, key, value);
        Object defaultValue = node.has("default") ? parseValue(withoutDefault, node.get("default")) : null;
        return defaultValue == null
            ? withoutDefault
            : new ConnectSchema(type, optional, defaultValue, name, version, doc, parameters, fields, key, value);
    }

    private static Object parseValue(Schema schema, JsonNode node) {
        if (node == null || node.isNull()) {
            return null;
        }
        Map.Entry<String, JsonNode> member = node.fields().next();
        JsonNode inner = member.getValue();
        switch (member.getKey()) {
            case "byte": return (byte) inner.asInt();
            case "short": return (short) inner.asInt();
            case "int": return inner.asInt();
            case "long": return inner.asLong();
            case "float": return Float.parseFloat(inner.asText());
            case "double": return Double.parseDouble(inner.asText());
            case "boolean": return inner.asBoolean();
            case "string": return inner.asText();
            case "bytes": return Base64.getDecoder().decode(inner.asText());
            case "decimal": return new BigDecimal(inner.asText());
            case "date": return new java.util.Date(inner.asLong());
            case "list": {
                List<Object> list = new ArrayList<>();
                Schema element = schema == null || schema.type() != Schema.Type.ARRAY ? null : schema.valueSchema();
                inner.forEach(item -> list.add(parseValue(element, item)));
                return list;
            }
            case "map": {
                Map<Object, Object> map = new LinkedHashMap<>();
                boolean isMap = schema != null && schema.type() == Schema.Type.MAP;
                inner.forEach(pair -> map.put(
                    parseValue(isMap ? schema.keySchema() : null, pair.get(0)),
                    parseValue(isMap ? schema.valueSchema() : null, pair.get(1))));
                return map;
            }
            case "struct": {
                Schema structSchema = node.has("of") ? parseSchema(node.get("of")) : schema;
                Struct struct = new Struct(structSchema);
                inner.fields().forEachRemaining(
                    entry -> struct.put(entry.getKey(), parseValue(structSchema.field(entry.getKey()).schema(), entry.getValue())));
                return struct;
            }
            default: throw new IllegalArgumentException(member.getKey());
        }
    }

    private static JsonNode describeSchema(Schema schema) {
        if (schema == null) {
            return NODES.nullNode();
        }
        ObjectNode result = NODES.objectNode();
        result.put("type", schema.type().name());
        if (schema.isOptional()) {
            result.put("optional", true);
        }
        if (schema.name() != null) {
            result.put("name", schema.name());
        }
        if (schema.version() != null) {
            result.put("version", schema.version());
        }
        if (schema.doc() != null) {
            result.put("doc", schema.doc());
        }
        if (schema.parameters() != null) {
            ObjectNode entries = result.putObject("parameters");
            schema.parameters().forEach(entries::put);
        }
        if (schema.defaultValue() != null) {
            result.set("default", describeValue(schema.defaultValue()));
        }
        if (schema.type() == Schema.Type.STRUCT) {
            ArrayNode fields = result.putArray("fields");
            for (Field field : schema.fields()) {
                ObjectNode fieldNode = fields.addObject();
                fieldNode.put("name", field.name());
                fieldNode.set("schema", describeSchema(field.schema()));
            }
        }
        if (schema.type() == Schema.Type.MAP && schema.keySchema() != null) {
            result.set("key", describeSchema(schema.keySchema()));
        }
        if ((schema.type() == Schema.Type.MAP || schema.type() == Schema.Type.ARRAY) && schema.valueSchema() != null) {
            result.set("value", describeSchema(schema.valueSchema()));
        }
        return result;
    }

    private static JsonNode describeValue(Object value) {
        ObjectNode result = NODES.objectNode();
        if (value == null) {
            return NODES.nullNode();
        } else if (value instanceof Byte || value instanceof Short || value instanceof Integer || value instanceof Long) {
            String kind = value.getClass().getSimpleName();
            result.put(kind.equals("Integer") ? "int" : kind.toLowerCase(), ((Number) value).longValue());
        } else if (value instanceof Float || value instanceof Double) {
            result.put(value.getClass().getSimpleName().toLowerCase(), value.toString());
        } else if (value instanceof Boolean) {
            result.put("boolean", (Boolean) value);
        } else if (value instanceof String) {
            result.put("string", (String) value);
        } else if (value instanceof byte[]) {
            result.put("bytes", Base64.getEncoder().encodeToString((byte[]) value));
        } else if (value instanceof BigDecimal) {
            result.put("decimal", value.toString());
        } else if (value instanceof java.util.Date) {
            result.put("date", ((java.util.Date) value).getTime());
        } else if (value instanceof List) {
            ArrayNode list = result.putArray("list");
            ((List<?>) value).forEach(item -> list.add(describeValue(item)));
        } else if (value instanceof Map) {
            ArrayNode map = result.putArray("map");
            ((Map<?, ?>) value).forEach((key, item) -> map.addArray().add(describeValue(key)).add(describeValue(item)));
        } else if (value instanceof Struct) {
            ObjectNode fields = result.putObject("struct");
            Struct struct = (Struct) value;
            struct.schema().fields().forEach(field -> fields.set(field.name(), describeValue(struct.getWithoutDefault(field.name()))));
        } else {
            throw new IllegalArgumentException(value.getClass().getName());
        }
        return result;
    }
}
