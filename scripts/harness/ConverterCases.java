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
 * Runs Kafka's converters on the cases in a JSON file, which the argument names, and prints the results.
 *
 * <p>A value is `null` or an object with one member, which is named after the Java class. A schema is an object with the attributes
 * that are set. Python code generates the cases and reads the results.
 */
public class ConverterCases {
    private static final JsonNodeFactory NODES = JsonNodeFactory.withExactBigDecimals(true);

    public static void main(String[] arguments) throws Exception {
        TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
        ObjectMapper mapper = new ObjectMapper();
        ArrayNode results = NODES.arrayNode();
        for (JsonNode test : mapper.readTree(new File(arguments[0]))) {
            results.add(answer(test));
        }
        System.out.println(mapper.writeValueAsString(results));
    }

    private static ObjectNode answer(JsonNode test) {
        ObjectNode found = NODES.objectNode();
        try {
            Object converter = Class.forName(test.get("converter").asText()).getDeclaredConstructor().newInstance();
            Map<String, String> config = new HashMap<>();
            test.get("config").fields().forEachRemaining(each -> config.put(each.getKey(), each.getValue().asText()));
            boolean header = converter instanceof HeaderConverter && test.get("header").asBoolean();
            if (header) {
                config.put("converter.type", "header");
                ((HeaderConverter) converter).configure(config);
            } else {
                ((Converter) converter).configure(config, false);
            }
            if (test.has("data")) {
                JsonNode data = test.get("data");
                byte[] bytes = data.isNull() ? null : Base64.getDecoder().decode(data.asText());
                SchemaAndValue read = header
                    ? ((HeaderConverter) converter).toConnectHeader("topic", "name", bytes)
                    : ((Converter) converter).toConnectData("topic", bytes);
                found.set("schema", described(read == null ? null : read.schema()));
                found.set("value", shown(read == null ? null : read.value()));
            } else {
                Schema schema = schema(test.get("schema"));
                Object value = value(schema, test.get("value"));
                byte[] bytes = header
                    ? ((HeaderConverter) converter).fromConnectHeader("topic", "name", schema, value)
                    : ((Converter) converter).fromConnectData("topic", schema, value);
                found.set("data", bytes == null ? NODES.nullNode() : text(bytes));
            }
        } catch (Exception e) {
            found.removeAll();
            found.put("exception", e.getClass().getSimpleName());
            found.put("error", e.getMessage());
        }
        return found;
    }

    private static JsonNode text(byte[] bytes) {
        String text = new String(bytes, StandardCharsets.UTF_8);
        boolean whole = Arrays.equals(text.getBytes(StandardCharsets.UTF_8), bytes);
        return whole ? NODES.objectNode().put("text", text) : NODES.objectNode().put("hex", HexFormat.of().formatHex(bytes));
    }

    private static Schema schema(JsonNode node) {
        if (node == null || node.isNull()) {
            return null;
        }
        Schema.Type type = Schema.Type.valueOf(node.get("type").asText());
        Map<String, String> parameters = null;
        if (node.has("parameters")) {
            Map<String, String> set = new LinkedHashMap<>();
            node.get("parameters").fields().forEachRemaining(each -> set.put(each.getKey(), each.getValue().asText()));
            parameters = set;
        }
        List<Field> fields = new ArrayList<>();
        if (node.has("fields")) {
            for (JsonNode each : node.get("fields")) {
                fields.add(new Field(each.get("name").asText(), fields.size(), schema(each.get("schema"))));
            }
        }
        String name = node.has("name") ? node.get("name").asText() : null;
        Integer version = node.has("version") ? node.get("version").asInt() : null;
        String doc = node.has("doc") ? node.get("doc").asText() : null;
        boolean optional = node.has("optional");
        Schema key = schema(node.get("key"));
        Schema value = schema(node.get("value"));
        Schema bare = new ConnectSchema(type, optional, null, name, version, doc, parameters, fields, key, value);
        Object standard = node.has("default") ? value(bare, node.get("default")) : null;
        return standard == null ? bare : new ConnectSchema(type, optional, standard, name, version, doc, parameters, fields, key, value);
    }

    private static Object value(Schema schema, JsonNode node) {
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
                inner.forEach(each -> list.add(value(element, each)));
                return list;
            }
            case "map": {
                Map<Object, Object> map = new LinkedHashMap<>();
                boolean known = schema != null && schema.type() == Schema.Type.MAP;
                inner.forEach(each -> map.put(
                    value(known ? schema.keySchema() : null, each.get(0)), value(known ? schema.valueSchema() : null, each.get(1))));
                return map;
            }
            case "struct": {
                Schema own = node.has("of") ? schema(node.get("of")) : schema;
                Struct struct = new Struct(own);
                inner.fields().forEachRemaining(
                    each -> struct.put(each.getKey(), value(own.field(each.getKey()).schema(), each.getValue())));
                return struct;
            }
            default: throw new IllegalArgumentException(member.getKey());
        }
    }

    private static JsonNode described(Schema schema) {
        if (schema == null) {
            return NODES.nullNode();
        }
        ObjectNode found = NODES.objectNode();
        found.put("type", schema.type().name());
        if (schema.isOptional()) {
            found.put("optional", true);
        }
        if (schema.name() != null) {
            found.put("name", schema.name());
        }
        if (schema.version() != null) {
            found.put("version", schema.version());
        }
        if (schema.doc() != null) {
            found.put("doc", schema.doc());
        }
        if (schema.parameters() != null) {
            ObjectNode set = found.putObject("parameters");
            schema.parameters().forEach(set::put);
        }
        if (schema.defaultValue() != null) {
            found.set("default", shown(schema.defaultValue()));
        }
        if (schema.type() == Schema.Type.STRUCT) {
            ArrayNode fields = found.putArray("fields");
            for (Field field : schema.fields()) {
                ObjectNode each = fields.addObject();
                each.put("name", field.name());
                each.set("schema", described(field.schema()));
            }
        }
        if (schema.type() == Schema.Type.MAP && schema.keySchema() != null) {
            found.set("key", described(schema.keySchema()));
        }
        if ((schema.type() == Schema.Type.MAP || schema.type() == Schema.Type.ARRAY) && schema.valueSchema() != null) {
            found.set("value", described(schema.valueSchema()));
        }
        return found;
    }

    private static JsonNode shown(Object value) {
        ObjectNode found = NODES.objectNode();
        if (value == null) {
            return NODES.nullNode();
        } else if (value instanceof Byte || value instanceof Short || value instanceof Integer || value instanceof Long) {
            String kind = value.getClass().getSimpleName();
            found.put(kind.equals("Integer") ? "int" : kind.toLowerCase(), ((Number) value).longValue());
        } else if (value instanceof Float || value instanceof Double) {
            found.put(value.getClass().getSimpleName().toLowerCase(), value.toString());
        } else if (value instanceof Boolean) {
            found.put("boolean", (Boolean) value);
        } else if (value instanceof String) {
            found.put("string", (String) value);
        } else if (value instanceof byte[]) {
            found.put("bytes", Base64.getEncoder().encodeToString((byte[]) value));
        } else if (value instanceof BigDecimal) {
            found.put("decimal", value.toString());
        } else if (value instanceof java.util.Date) {
            found.put("date", ((java.util.Date) value).getTime());
        } else if (value instanceof List) {
            ArrayNode list = found.putArray("list");
            ((List<?>) value).forEach(each -> list.add(shown(each)));
        } else if (value instanceof Map) {
            ArrayNode map = found.putArray("map");
            ((Map<?, ?>) value).forEach((key, item) -> map.addArray().add(shown(key)).add(shown(item)));
        } else if (value instanceof Struct) {
            ObjectNode fields = found.putObject("struct");
            Struct struct = (Struct) value;
            struct.schema().fields().forEach(field -> fields.set(field.name(), shown(struct.getWithoutDefault(field.name()))));
        } else {
            throw new IllegalArgumentException(value.getClass().getName());
        }
        return found;
    }
}
