package kraal.plugins;

import java.lang.instrument.Instrumentation;

/** Installs the class transformers {@link ExitGuard} and {@link MovedClasses}. */
public final class Agent {
    private Agent() {
    }

    /** Called before {@code main}. Source: package java.lang.instrument. */
    public static void premain(String arguments, Instrumentation instrumentation) {
        ExitGuard.install(instrumentation);
        MovedClasses.install(instrumentation);
    }
}
