import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;

/** Prints Kafka's config definitions without documentation as JSON. Each argument NAME=CLASS names a definition. */
public class ConfigDefinitions {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> definitions = new LinkedHashMap<>();
        for (String argument : arguments) {
            String[] pair = argument.split("=", 2);
            List<Object> keys = new ArrayList<>();
            for (ConfigDef.ConfigKey key : definition(Class.forName(pair[1])).configKeys().values()) {
                keys.add(describe(key));
            }
            definitions.put(pair[0], keys);
        }
        ObjectMapper mapper = new ObjectMapper().enable(SerializationFeature.INDENT_OUTPUT);
        System.out.println(mapper.writeValueAsString(definitions));
    }

    /** Returns the definition that a worker uses: a static field of the class, or the result of a method. */
    private static ConfigDef definition(Class<?> owner) throws Exception {
        for (Field field : owner.getDeclaredFields()) {
            if (ConfigDef.class.isAssignableFrom(field.getType())) {
                field.setAccessible(true);
                return (ConfigDef) field.get(null);
            }
        }
        for (Method method : owner.getDeclaredMethods()) {
            boolean isGetter = method.getParameterCount() == 0 && ConfigDef.class.isAssignableFrom(method.getReturnType());
            if (isGetter) {
                method.setAccessible(true);
                return (ConfigDef) method.invoke(null);
            }
        }
        // DistributedConfig validates algorithms with a Crypto, by default with the JVM's providers.
        Class<?> crypto = Class.forName("org.apache.kafka.connect.runtime.distributed.Crypto");
        Method method = owner.getDeclaredMethod("config", crypto);
        method.setAccessible(true);
        return (ConfigDef) method.invoke(null, crypto.getField("SYSTEM").get(null));
    }

    private static Map<String, Object> describe(ConfigDef.ConfigKey key) {
        Map<String, Object> row = new LinkedHashMap<>();
        row.put("name", key.name);
        row.put("type", key.type.name());
        row.put("required", !key.hasDefault());
        row.put("default_value", key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null);
        row.put("valid_values", key.validator == null ? null : key.validator.toString());
        row.put("importance", key.importance.name());
        row.put("group", key.group);
        row.put("order_in_group", key.orderInGroup);
        row.put("width", key.width.name());
        row.put("display_name", key.displayName);
        row.put("dependents", key.dependents);
        row.put("internal", key.internalConfig);
        return row;
    }
}
