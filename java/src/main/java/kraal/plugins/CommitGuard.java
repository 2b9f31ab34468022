package kraal.plugins;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.Instrumentation;
import java.security.ProtectionDomain;
import javassist.bytecode.BadBytecode;
import javassist.bytecode.Bytecode;
import javassist.bytecode.ClassFile;
import javassist.bytecode.CodeAttribute;

/**
 * Makes {@code KafkaProducer.commitTransaction} call {@code flush} first, so that no transaction is committed before its
 * last records are sent.
 *
 * <p>{@code Sender} computes whether records are unsent before it locks the {@code TransactionManager} to get the next
 * request (Kafka 4.4.0, {@code maybeSendAndPollTransactionalRequest}). If the sender's thread is suspended in between,
 * and a source task sends its last records and commits, the transaction ends without these records, which usually
 * include the offsets.
 * The task then waits forever, and writes the other records of the transaction again after a restart.
 */
final class CommitGuard implements ClassFileTransformer {
    private static final String PRODUCER = "org/apache/kafka/clients/producer/KafkaProducer";

    static void install(Instrumentation instrumentation) {
        instrumentation.addTransformer(new CommitGuard());
    }

    @Override
    public byte[] transform(ClassLoader loader, String name, Class<?> type, ProtectionDomain domain, byte[] classFile) {
        if (!PRODUCER.equals(name) || loader != ClassLoader.getSystemClassLoader()) {
            return null;
        }
        try {
            ClassFile producer = new ClassFile(new DataInputStream(new ByteArrayInputStream(classFile)));
            Bytecode flush = new Bytecode(producer.getConstPool());
            flush.addAload(0);
            flush.addInvokevirtual(producer.getName(), "flush", "()V");
            CodeAttribute commit = producer.getMethod("commitTransaction").getCodeAttribute();
            commit.iterator().insert(flush.get());
            commit.setMaxStack(Math.max(commit.getMaxStack(), flush.getMaxStack()));
            ByteArrayOutputStream bytes = new ByteArrayOutputStream(classFile.length);
            producer.write(new DataOutputStream(bytes));
            return bytes.toByteArray();
        } catch (IOException | BadBytecode | RuntimeException e) { // the JVM ignores exceptions of transformers
            System.out.println("WARN|" + CommitGuard.class.getName() + "||A transaction of a source with exactly-once support"
                + " may be committed without its last records, because KafkaProducer cannot be changed: " + e);
            return null;
        }
    }
}
