package kraal.plugins;

import java.lang.instrument.Instrumentation;

/** Installs the class transformers {@link ExitGuard}, {@link CommitGuard} and {@link MovedClasses}. */
public final class Agent {
    private Agent() {
    }

    /** Called before {@code main}. Source: package java.lang.instrument. */
    public static void premain(String arguments, Instrumentation instrumentation) {
        ExitGuard.install(instrumentation);
        CommitGuard.install(instrumentation);
        MovedClasses.install(instrumentation);
    }
}
