package kraal.plugins;

/**
 * Ends the process if Python has not been heard of for some time: the worker may be frozen, and its work elsewhere.
 *
 * <p>A task that is only cancelled could still commit offsets when it returns; a process that has ended cannot.
 */
final class Pulse {
    private static final long WATCH_MS = 250;
    private volatile long heardNanos = System.nanoTime();

    Pulse(long silenceMs) {
        Thread watch = new Thread(() -> watch(silenceMs), "kraal-pulse");
        watch.setDaemon(true);
        watch.start();
    }

    /** Records that Python lives. */
    void heard() {
        heardNanos = System.nanoTime();
    }

    private void watch(long silenceMs) {
        while (System.nanoTime() - heardNanos < silenceMs * 1_000_000) {
            try {
                Thread.sleep(WATCH_MS);
            } catch (InterruptedException e) {
                // nobody may end the watch
            }
        }
        System.out.println("FATAL|kraal.plugins.Pulse|The worker has been silent for " + silenceMs
            + " ms: ending all its Java plugins, whose work may be elsewhere");
        System.out.flush();
        ExitGuard.end();
    }
}
