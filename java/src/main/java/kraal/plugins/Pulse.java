package kraal.plugins;

/**
 * Halts the process if Python has sent no heartbeat for some time, because the tasks of a frozen worker may be running
 * on another worker.
 *
 * <p>Cancelling the tasks would not suffice: a cancelled task could still commit offsets when its plugin returns.
 */
final class Pulse {
    private static final long CHECK_INTERVAL_MS = 250;
    private volatile long lastHeartbeatNanos = System.nanoTime();

    Pulse(long silenceMs) {
        Thread watch = new Thread(() -> watch(silenceMs), "kraal-pulse");
        watch.setDaemon(true);
        watch.start();
    }

    /** Records a heartbeat from Python. */
    void recordHeartbeat() {
        lastHeartbeatNanos = System.nanoTime();
    }

    private void watch(long silenceMs) {
        while (System.nanoTime() - lastHeartbeatNanos < silenceMs * 1_000_000) {
            try {
                Thread.sleep(CHECK_INTERVAL_MS);
            } catch (InterruptedException e) {
                // Ignored, because plugin code must not be able to end this thread.
            }
        }
        System.out.println("FATAL|kraal.plugins.Pulse|The worker has sent no heartbeat for " + silenceMs
            + " ms; stopping its Java plugins, because their tasks may be running on another worker");
        System.out.flush();
        ExitGuard.halt();
    }
}
