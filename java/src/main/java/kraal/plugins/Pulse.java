package kraal.plugins;

/**
 * Halts the process if Python has sent no heartbeat for some time, because the tasks of a frozen worker may be running
 * on another one.
 *
 * <p>A task that is merely cancelled could still commit offsets when its plugin returns.
 */
final class Pulse {
    private static final long WATCH_MS = 250;
    private volatile long heardNanos = System.nanoTime();

    Pulse(long silenceMs) {
        Thread watch = new Thread(() -> watch(silenceMs), "kraal-pulse");
        watch.setDaemon(true);
        watch.start();
    }

    /** Records a heartbeat of Python. */
    void heard() {
        heardNanos = System.nanoTime();
    }

    private void watch(long silenceMs) {
        while (System.nanoTime() - heardNanos < silenceMs * 1_000_000) {
            try {
                Thread.sleep(WATCH_MS);
            } catch (InterruptedException e) {
                // the watch must not be interrupted
            }
        }
        System.out.println("FATAL|kraal.plugins.Pulse|The worker has been silent for " + silenceMs
            + " ms: ending all its Java plugins, whose work may be elsewhere");
        System.out.flush();
        ExitGuard.end();
    }
}
