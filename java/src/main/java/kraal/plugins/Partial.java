package kraal.plugins;

import java.lang.reflect.Proxy;
import java.util.Map;
import java.util.function.Function;

/** Objects that implement the few methods of a large interface that are called here. */
final class Partial {
    private Partial() {
    }

    /** Makes an object whose named methods call these functions; others throw UnsupportedOperationException. */
    static <T> T of(Class<T> type, Map<String, Function<Object[], Object>> methods) {
        return type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, (self, method, given) -> {
            Function<Object[], Object> function = methods.get(method.getName());
            if (function == null) {
                throw new UnsupportedOperationException(method.toString());
            }
            return function.apply(given);
        }));
    }
}
