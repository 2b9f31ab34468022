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

/** Tests for {@link ExitGuard} in a JVM with the agent. JUnit itself calls System.exit. */
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
        SecurityException refused = assertThrows(SecurityException.class, () -> System.exit(3));
        assertEquals(
            "The plugin called System.exit(3), which would have ended all plugins of this worker", refused.getMessage());
    }

    @Test
    void haltAndReflectiveExitThrow() {
        assertThrows(SecurityException.class, () -> Runtime.getRuntime().exit(3));
        assertThrows(SecurityException.class, () -> Runtime.getRuntime().halt(3));
        InvocationTargetException reflected = assertThrows(
            InvocationTargetException.class, () -> System.class.getMethod("exit", int.class).invoke(null, 3));
        assertInstanceOf(SecurityException.class, reflected.getCause());
    }

    @Test
    void commonPoolThreadsAcceptContextClassLoaders() throws Exception {
        try (URLClassLoader loader = new URLClassLoader(new URL[0])) {
            FutureTask<ClassLoader> set = new FutureTask<>(() -> {
                Thread thread = Thread.currentThread();
                ClassLoader before = thread.getContextClassLoader();
                thread.setContextClassLoader(loader);
                ClassLoader after = thread.getContextClassLoader();
                thread.setContextClassLoader(before);
                return after;
            });
            ForkJoinPool.commonPool().execute(set); // this thread does not execute tasks of the pool
            assertSame(loader, set.get());
        }
    }
}
