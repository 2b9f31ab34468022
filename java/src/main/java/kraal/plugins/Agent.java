package kraal.plugins;

import java.lang.instrument.Instrumentation;

/** Changes classes when they are loaded: see {@link ExitGuard} and {@link MovedClasses}. */
public final class Agent {
    private Agent() {
    }

    /** Called before {@code main}. Source: package java.lang.instrument. */
    public static void premain(String arguments, Instrumentation instrumentation) {
        ExitGuard.install(instrumentation);
        MovedClasses.install(instrumentation);
    }
}
