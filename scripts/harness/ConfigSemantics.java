import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.Importance;
import org.apache.kafka.common.config.ConfigDef.Type;
import org.apache.kafka.common.config.ConfigDef.Width;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.ConfigValue;

/** Prints, as JSON, the results of Kafka's ConfigDef for values, validators, dependents and recommenders. */
public class ConfigSemantics {
    private static final List<String> TEXTS = Arrays.asList(
        "", " ", "a", " a ", "a,b", " a , b ", "a,,b", ",", "a,", "true", "TRUE", " False ", "yes", "0", "-1", "+5", "007", " 12 ",
        "1.5", "1e3", ".5", "5.", "0x10", "NaN", "-Infinity", "1d", "2f", "1_000", "32767", "32768", "-32769", "2147483647",
        "2147483648", "9223372036854775807", "9223372036854775808", "-9223372036854775809", "null", "\u0661", "a\tb");

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> results = new LinkedHashMap<>();
        results.put("parsed", parseTexts());
        results.put("checked", checkValues());
        results.put("validated", validateConfigs());
        results.put("embedded", embedDefinition());
        ObjectMapper mapper = new ObjectMapper().enable(SerializationFeature.INDENT_OUTPUT);
        System.out.println(mapper.writeValueAsString(results));
    }

    private static List<Object> parseTexts() {
        List<Object> rows = new ArrayList<>();
        for (Type type : new Type[] {Type.BOOLEAN, Type.STRING, Type.INT, Type.SHORT, Type.LONG, Type.DOUBLE, Type.LIST, Type.PASSWORD}) {
            for (String text : TEXTS) {
                Map<String, Object> row = new LinkedHashMap<>();
                row.put("type", type.name());
                row.put("text", text);
                try {
                    row.put("value", String.valueOf(ConfigDef.parseType("key", text, type)));
                } catch (ConfigException e) {
                    row.put("error", e.getMessage());
                }
                rows.add(row);
            }
        }
        return rows;
    }

    private static List<Object> checkValues() {
        List<Object> rows = new ArrayList<>();
        List<Object> numbers = Arrays.asList(null, -1, 0, 1, 5, 10, 11);
        List<Object> texts = Arrays.asList(null, "", " ", "a", "A", "b", "c", "a\nb", "\u007f", "\u009f\u00a0");
        List<Object> lists = Arrays.asList(
            null, Arrays.asList(), Arrays.asList("a"), Arrays.asList("a", "b"), Arrays.asList("a", "a"), Arrays.asList("a", ""),
            Arrays.asList(""));
        check(rows, "at_least", ConfigDef.Range.atLeast(1), numbers);
        check(rows, "between", ConfigDef.Range.between(0, 10), numbers);
        check(rows, "one_of", ConfigDef.ValidString.in("a", "b"), texts);
        check(rows, "one_of_ignoring_case", ConfigDef.CaseInsensitiveValidString.in("A", "B"), texts);
        check(rows, "non_empty", new ConfigDef.NonEmptyString(), texts);
        check(rows, "non_null", new ConfigDef.NonNullValidator(), texts);
        check(rows, "clean_name", new ConfigDef.NonEmptyStringWithoutControlChars(), texts);
        check(rows, "distinct_entries", ConfigDef.ValidList.anyNonDuplicateValues(true, false), lists);
        check(rows, "all_of", ConfigDef.CompositeValidator.of(new ConfigDef.NonEmptyString(), ConfigDef.ValidString.in("a", "")), texts);
        return rows;
    }

    private static void check(List<Object> rows, String name, ConfigDef.Validator validator, List<Object> values) {
        for (Object value : values) {
            Map<String, Object> row = new LinkedHashMap<>();
            row.put("check", name);
            row.put("value", value);
            try {
                validator.ensureValid("key", value);
                row.put("error", null);
            } catch (ConfigException e) {
                row.put("error", e.getMessage());
            }
            rows.add(row);
        }
    }

    /** Recommends numbers depending on `kind`, whose value can hide the dependents or make their recommender fail. */
    private static final class Sizes implements ConfigDef.Recommender {
        @Override
        public List<Object> validValues(String name, Map<String, Object> parsed) {
            if ("broken".equals(parsed.get("kind"))) {
                throw new ConfigException("no sizes of " + parsed.get("kind"));
            }
            return new ArrayList<>("small".equals(parsed.get("kind")) ? Arrays.asList(1, 2) : Arrays.asList(10, 20));
        }

        @Override
        public boolean visible(String name, Map<String, Object> parsed) {
            return !"hidden".equals(parsed.get("kind"));
        }
    }

    private static ConfigDef definition() {
        return new ConfigDef()
            .define("kind", Type.STRING, "small", Importance.HIGH, "", "Group", 1, Width.LONG, "Kind", List.of("size", "names"))
            .define("size", Type.INT, 1, ConfigDef.Range.atLeast(1), Importance.LOW, "", "Group", 2, Width.SHORT, "Size", List.of("depth"),
                new Sizes())
            .define("depth", Type.INT, ConfigDef.NO_DEFAULT_VALUE, ConfigDef.Range.atLeast(0), Importance.LOW, "", "Other", 1, Width.SHORT,
                "Depth", new Sizes())
            .define("names", Type.LIST, ConfigDef.NO_DEFAULT_VALUE, Importance.MEDIUM, "")
            .define("alone", Type.BOOLEAN, true, Importance.MEDIUM, "", null, -1, Width.NONE, "alone", List.of("ghost"))
            .define("secret", Type.PASSWORD, null, Importance.MEDIUM, "");
    }

    private static List<Object> validateConfigs() {
        List<Map<String, String>> configs = new ArrayList<>();
        configs.add(Map.of());
        configs.add(Map.of("depth", "0", "names", "a,b"));
        configs.add(Map.of("kind", "large", "size", "10", "depth", "-1", "names", "", "secret", "x"));
        configs.add(Map.of("kind", "hidden", "size", "0", "depth", "x", "alone", "maybe", "unknown", "1"));
        configs.add(Map.of("kind", "broken", "names", "a"));
        Map<String, String> nulls = new TreeMap<>();
        for (String name : List.of("kind", "size", "depth", "names", "alone", "secret", "unknown")) {
            nulls.put(name, null);
        }
        configs.add(nulls);
        List<Object> rows = new ArrayList<>();
        for (Map<String, String> config : configs) {
            Map<String, Object> row = new LinkedHashMap<>();
            row.put("config", new TreeMap<>(config));
            Map<String, Object> values = new TreeMap<>();
            for (ConfigValue value : definition().validate(config)) {
                Map<String, Object> result = new LinkedHashMap<>();
                ConfigDef.ConfigKey key = definition().configKeys().get(value.name());
                result.put("value", key == null ? null : ConfigDef.convertToString(value.value(), key.type));
                result.put("recommended", value.recommendedValues().stream().map(String::valueOf).toList());
                result.put("errors", value.errorMessages());
                result.put("visible", value.visible());
                values.put(value.name(), result);
            }
            row.put("values", values);
            rows.add(row);
        }
        return rows;
    }

    private static List<Object> embedDefinition() {
        ConfigDef outer = new ConfigDef().define("kind", Type.STRING, "small", Importance.HIGH, "", "First", 1, Width.LONG, "Kind");
        outer.embed("pre.fix.", "Under", 7, definition());
        List<Object> rows = new ArrayList<>();
        for (ConfigDef.ConfigKey key : outer.configKeys().values()) {
            Map<String, Object> row = new LinkedHashMap<>();
            row.put("name", key.name);
            row.put("group", key.group);
            row.put("order", key.orderInGroup);
            row.put("title", key.displayName);
            row.put("dependents", key.dependents);
            rows.add(row);
        }
        return List.of(Map.of("groups", outer.groups(), "keys", rows));
    }
}
