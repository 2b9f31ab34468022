package kraal.plugins;

import java.lang.instrument.Instrumentation;
import kraal.plugins.ledger.CountedTasks;

/** Installs the class transformers {@link ExitGuard}, {@link CommitGuard}, {@link MovedClasses} and {@link CountedTasks}. */
public final class Agent {
    /** The argument with which records are counted. */
    private static final String LEDGER = "ledger";

    private Agent() {
    }

    /** Called before {@code main}. Source: package java.lang.instrument. */
    public static void premain(String arguments, Instrumentation instrumentation) {
        ExitGuard.install(instrumentation);
        CommitGuard.install(instrumentation);
        MovedClasses.install(instrumentation);
        if (LEDGER.equals(arguments)) {
            CountedTasks.install(instrumentation);
        }
    }
}
