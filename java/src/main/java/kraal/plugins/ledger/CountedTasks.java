package kraal.plugins.ledger;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.Instrumentation;
import java.security.ProtectionDomain;
import java.util.Map;
import java.util.function.Consumer;
import java.util.function.Supplier;
import javassist.bytecode.ClassFile;

/**
 * Makes Kafka's worker create tasks that count their records, which are subclasses of its own task classes.
 *
 * <p>The worker has no factory for tasks. This class transformer replaces the names of the classes that the worker's task
 * builders instantiate (Kafka 4.4.0, {@code Worker.SinkTaskBuilder}). It is installed only for a worker with a ledger.
 */
public final class CountedTasks implements ClassFileTransformer {
    private static final String RUNTIME = "org.apache.kafka.connect.runtime.";
    private static final String LEDGER = "kraal.plugins.ledger.";
    /** The replaced classes, by the class that instantiates them. */
    private static final Map<String, Map<String, String>> REPLACEMENTS = Map.of(
        RUNTIME + "Worker$SinkTaskBuilder", Map.of(
            RUNTIME + "WorkerSinkTask", RUNTIME + "CountedSinkTask",
            "org.apache.kafka.clients.consumer.KafkaConsumer", LEDGER + "CountedConsumer"),
        RUNTIME + "Worker$SourceTaskBuilder", Map.of(
            RUNTIME + "WorkerSourceTask", RUNTIME + "CountedSourceTask"),
        RUNTIME + "Worker$ExactlyOnceSourceTaskBuilder", Map.of(
            RUNTIME + "ExactlyOnceWorkerSourceTask", RUNTIME + "CountedExactlyOnceSourceTask",
            "org.apache.kafka.clients.producer.KafkaProducer", LEDGER + "CountedProducer"));

    /** Receives the counts of the task that the current thread creates; without a value, counts are not reported. */
    private static final ThreadLocal<Consumer<RecordCounts>> LISTENER = new ThreadLocal<>();

    private CountedTasks() {
    }

    public static void install(Instrumentation instrumentation) {
        instrumentation.addTransformer(new CountedTasks());
    }

    /** Creates a task with {@code create} on the current thread, and passes the counts of its records to a listener. */
    public static <T> T create(Consumer<RecordCounts> listener, Supplier<T> create) {
        LISTENER.set(listener);
        try {
            return create.get();
        } finally {
            LISTENER.remove();
        }
    }

    /** Passes new counts to the listener of the current thread, and returns them. */
    public static <C extends RecordCounts> C register(C counts) {
        Consumer<RecordCounts> listener = LISTENER.get();
        if (listener != null) {
            listener.accept(counts);
        }
        return counts;
    }

    @Override
    public byte[] transform(ClassLoader loader, String name, Class<?> type, ProtectionDomain domain, byte[] classFile) {
        Map<String, String> replacements = name == null ? null : REPLACEMENTS.get(name.replace('/', '.'));
        if (replacements == null || loader != ClassLoader.getSystemClassLoader()) {
            return null;
        }
        try {
            ClassFile builder = new ClassFile(new DataInputStream(new ByteArrayInputStream(classFile)));
            replacements.forEach(builder::renameClass);
            ByteArrayOutputStream bytes = new ByteArrayOutputStream(classFile.length);
            builder.write(new DataOutputStream(bytes));
            return bytes.toByteArray();
        } catch (IOException | RuntimeException e) { // the JVM ignores exceptions of transformers
            System.out.println("WARN|" + CountedTasks.class.getName() + "||The ledger does not count the records of Java"
                + " plugins, because " + name + " cannot be changed: " + e);
            return null;
        }
    }
}
