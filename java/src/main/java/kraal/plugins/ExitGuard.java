package kraal.plugins;

import java.security.Permission;

/** Makes {@code System.exit} in a plugin an error of the thread that calls it, so that only its task fails. */
@SuppressWarnings({"deprecation", "removal"})
final class ExitGuard extends SecurityManager {
    private static volatile boolean ending;

    private ExitGuard() {
    }

    /** Installs the guard; Java must run with {@code -Djava.security.manager=allow}. */
    static void install() {
        System.setSecurityManager(new ExitGuard());
    }

    /** Ends the process at once. */
    static void end() {
        ending = true;
        Runtime.getRuntime().halt(0);
    }

    @Override
    public void checkExit(int status) {
        if (ending) {
            return;
        }
        throw new SecurityException(
            "The plugin called System.exit(" + status + "), which would have ended all plugins of this worker");
    }

    @Override
    public void checkPermission(Permission permission) {
        // everything else is allowed
    }

    @Override
    public void checkPermission(Permission permission, Object context) {
        // everything else is allowed
    }
}
