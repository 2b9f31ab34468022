import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import java.io.File;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/**
 * Prints, as JSON, the results of Connect's transforms and predicates for the cases in the file that the first argument names. If
 * there are further arguments, which are class names, prints the config definitions of these classes instead.
 *
 * <p>A case has the members config and records. A record has the members topic, partition, offset (only sink records), timestamp,
 * key, value and headers. Data is JSON text. Text that starts with the member `schema` is an envelope with a schema; any other text
 * has no schema.
 */
public class TransformCases {
    private static final ObjectMapper MAPPER = new ObjectMapper().enable(SerializationFeature.INDENT_OUTPUT);
    private static final JsonConverter WITH_SCHEMAS = converter(true);
    private static final JsonConverter WITHOUT_SCHEMAS = converter(false);

    /** A transform with its optional predicate. */
    private record Stage(String alias, Transformation<?> transformation, Predicate<?> predicate, boolean negate) { }

    public static void main(String[] arguments) throws Exception {
        List<Object> results = new ArrayList<>();
        if (arguments.length > 1) {
            Map<String, Object> definitions = new LinkedHashMap<>();
            for (int i = 1; i < arguments.length; i++) {
                definitions.put(arguments[i], definition(arguments[i]));
            }
            System.out.println(MAPPER.writeValueAsString(definitions));
            return;
        }
        for (JsonNode node : MAPPER.readTree(new File(arguments[0]))) {
            results.add(runCase(node));
        }
        System.out.println(MAPPER.writeValueAsString(results));
    }

    private static JsonConverter converter(boolean schemas) {
        JsonConverter converter = new JsonConverter();
        converter.configure(Map.of("schemas.enable", String.valueOf(schemas)), false);
        return converter;
    }

    private static Map<String, Object> runCase(JsonNode node) {
        Map<String, Object> result = new LinkedHashMap<>();
        List<Stage> stages = new ArrayList<>();
        try {
            stages.addAll(makeStages(config(node.get("config"))));
        } catch (Exception e) {
            result.put("refused", describeError(e));
            return result;
        }
        List<Object> results = new ArrayList<>();
        for (JsonNode record : node.get("records")) {
            try {
                results.add(transform(stages, parseRecord(record)));
            } catch (Exception e) {
                throw new IllegalArgumentException("Invalid record: " + record, e);
            }
        }
        result.put("results", results);
        return result;
    }

    private static Map<String, String> config(JsonNode node) {
        Map<String, String> config = new LinkedHashMap<>();
        node.fields().forEachRemaining(entry -> config.put(entry.getKey(), entry.getValue().asText()));
        return config;
    }

    private static List<Stage> makeStages(Map<String, String> config) throws Exception {
        List<Stage> stages = new ArrayList<>();
        for (String alias : config.get("transforms").split(",")) {
            Map<String, String> settings = keysWithPrefix(config, "transforms." + alias + ".");
            String predicateAlias = settings.remove("predicate");
            boolean negate = Boolean.parseBoolean(settings.remove("negate"));
            Transformation<?> transformation = (Transformation<?>) newInstance(settings.remove("type"));
            transformation.configure(settings);
            Predicate<?> predicate = null;
            if (predicateAlias != null) {
                Map<String, String> predicateSettings = keysWithPrefix(config, "predicates." + predicateAlias + ".");
                predicate = (Predicate<?>) newInstance(predicateSettings.remove("type"));
                predicate.configure(predicateSettings);
            }
            stages.add(new Stage(alias, transformation, predicate, negate));
        }
        return stages;
    }

    private static Object newInstance(String name) throws Exception {
        return Class.forName(name).getDeclaredConstructor().newInstance();
    }

    private static Map<String, String> keysWithPrefix(Map<String, String> config, String prefix) {
        Map<String, String> keys = new HashMap<>();
        config.forEach((name, value) -> {
            if (name.startsWith(prefix)) {
                keys.put(name.substring(prefix.length()), value);
            }
        });
        return keys;
    }

    private static ConnectRecord<?> parseRecord(JsonNode node) {
        String topic = node.get("topic").asText();
        Integer partition = node.hasNonNull("partition") ? node.get("partition").asInt() : null;
        Long timestamp = node.hasNonNull("timestamp") ? node.get("timestamp").asLong() : null;
        SchemaAndValue key = parseData(topic, node.get("key"));
        SchemaAndValue value = parseData(topic, node.get("value"));
        ConnectHeaders headers = new ConnectHeaders();
        if (node.has("headers")) {
            for (JsonNode header : node.get("headers")) {
                headers.add(header.get(0).asText(), parseData(topic, header.get(1)));
            }
        }
        if (node.hasNonNull("offset")) {
            return new SinkRecord(topic, partition, key.schema(), key.value(), value.schema(), value.value(), node.get("offset").asLong(),
                timestamp, TimestampType.CREATE_TIME, headers);
        }
        return new SourceRecord(Map.of(), Map.of(), topic, partition, key.schema(), key.value(), value.schema(), value.value(), timestamp,
            headers);
    }

    private static SchemaAndValue parseData(String topic, JsonNode text) {
        if (text == null || text.isNull()) {
            return SchemaAndValue.NULL;
        }
        byte[] bytes = text.asText().getBytes(StandardCharsets.UTF_8);
        boolean hasSchema = text.asText().startsWith("{\"schema\":");
        return (hasSchema ? WITH_SCHEMAS : WITHOUT_SCHEMAS).toConnectData(topic, bytes);
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static Map<String, Object> transform(List<Stage> stages, ConnectRecord record) {
        Map<String, Object> result = new LinkedHashMap<>();
        for (Stage stage : stages) {
            try {
                Predicate predicate = stage.predicate();
                if (predicate == null || stage.negate() ^ predicate.test(record)) {
                    record = ((Transformation) stage.transformation()).apply(record);
                }
            } catch (Exception e) {
                result.put("failed", stage.alias());
                result.putAll(describeError(e));
                return result;
            }
            if (record == null) {
                result.put("dropped", stage.alias());
                return result;
            }
        }
        try {
            return describeRecord(record);
        } catch (Exception e) {
            result.put("unwritable", true);
            result.putAll(describeError(e));
            return result;
        }
    }

    private static Map<String, Object> describeRecord(ConnectRecord<?> record) {
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("topic", record.topic());
        result.put("partition", record.kafkaPartition());
        result.put("timestamp", record.timestamp());
        result.put("key", text(WITH_SCHEMAS.fromConnectData(record.topic(), record.keySchema(), record.key())));
        result.put("value", text(WITH_SCHEMAS.fromConnectData(record.topic(), record.valueSchema(), record.value())));
        List<Object> headers = new ArrayList<>();
        for (Header header : record.headers()) {
            byte[] bytes = WITH_SCHEMAS.fromConnectHeader(record.topic(), header.key(), header.schema(), header.value());
            headers.add(java.util.Arrays.asList(header.key(), text(bytes)));
        }
        result.put("headers", headers);
        return result;
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
    }

    private static Map<String, Object> describeError(Exception e) {
        Map<String, Object> error = new LinkedHashMap<>();
        error.put("class", e.getClass().getName());
        error.put("message", e.getMessage());
        return error;
    }

    private static List<Object> definition(String name) throws Exception {
        Object plugin = newInstance(name);
        ConfigDef config = plugin instanceof Transformation<?> t ? t.config() : ((Predicate<?>) plugin).config();
        List<Object> keys = new ArrayList<>();
        for (ConfigDef.ConfigKey key : config.configKeys().values()) {
            Map<String, Object> row = new LinkedHashMap<>();
            row.put("name", key.name);
            row.put("type", key.type.name());
            row.put("required", !key.hasDefault());
            row.put("default_value", key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null);
            row.put("importance", key.importance.name());
            row.put("group", key.group);
            row.put("order_in_group", key.orderInGroup);
            row.put("width", key.width.name());
            row.put("display_name", key.displayName);
            row.put("dependents", key.dependents);
            row.put("refuses", collectErrors(key));
            keys.add(row);
        }
        return keys;
    }

    /** Returns the errors of the key's validator for a few values, by value. */
    private static Map<String, String> collectErrors(ConfigDef.ConfigKey key) {
        Map<String, String> errors = new LinkedHashMap<>();
        if (key.validator == null) {
            return errors;
        }
        for (String text : List.of("", "a", "a,a", "a,", "a:b", "a:b:c", "a:int8", "a:array", "int8", "int8,a:int8", "V2", "v2", "move", "unix",
            "seconds")) {
            try {
                key.validator.ensureValid(key.name, ConfigDef.parseType(key.name, text, key.type));
            } catch (ConfigException e) {
                errors.put(text, e.getMessage());
            }
        }
        try {
            key.validator.ensureValid(key.name, null);
        } catch (ConfigException e) {
            errors.put("null", e.getMessage());
        } catch (RuntimeException e) {
            errors.put("null", "raises " + e.getClass().getName());
        }
        return errors;
    }
}
