package kraal.plugins;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.lang.reflect.InvocationTargetException;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.FutureTask;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Tests for {@link ExitGuard} in a JVM with the agent. JUnit calls System.exit at its end, so each test allows exits again. */
class ExitGuardTest {
    @BeforeEach
    void guard() {
        ExitGuard.mayExit = false;
    }

    @AfterEach
    void allowExit() {
        ExitGuard.mayExit = true;
    }

    @Test
    void exitThrowsWithItsStatus() {
        SecurityException exception = assertThrows(SecurityException.class, () -> System.exit(3));
        assertEquals(
            "The plugin called System.exit(3), which would have ended all plugins of this worker", exception.getMessage());
    }

    @Test
    void haltAndReflectiveExitThrow() {
        assertThrows(SecurityException.class, () -> Runtime.getRuntime().exit(3));
        assertThrows(SecurityException.class, () -> Runtime.getRuntime().halt(3));
        InvocationTargetException exception = assertThrows(
            InvocationTargetException.class, () -> System.class.getMethod("exit", int.class).invoke(null, 3));
        assertInstanceOf(SecurityException.class, exception.getCause());
    }

    @Test
    void commonPoolThreadsAcceptContextClassLoaders() throws Exception {
        try (URLClassLoader loader = new URLClassLoader(new URL[0])) {
            FutureTask<ClassLoader> setLoader = new FutureTask<>(() -> {
                Thread thread = Thread.currentThread();
                ClassLoader before = thread.getContextClassLoader();
                thread.setContextClassLoader(loader);
                ClassLoader after = thread.getContextClassLoader();
                thread.setContextClassLoader(before);
                return after;
            });
            ForkJoinPool.commonPool().execute(setLoader); // runs on a thread of the pool, not on this one
            assertSame(loader, setLoader.get());
        }
    }
}
