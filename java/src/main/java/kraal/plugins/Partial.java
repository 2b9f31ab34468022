package kraal.plugins;

import java.lang.reflect.Proxy;
import java.util.Map;
import java.util.function.Function;

/** Creates proxies that implement only some methods of a large interface. */
final class Partial {
    private Partial() {
    }

    /** Creates a proxy whose named methods call these functions; all other methods throw UnsupportedOperationException. */
    static <T> T of(Class<T> type, Map<String, Function<Object[], Object>> methods) {
        return type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, (self, method, arguments) -> {
            Function<Object[], Object> function = methods.get(method.getName());
            if (function == null) {
                throw new UnsupportedOperationException(method.toString());
            }
            return function.apply(arguments);
        }));
    }
}
