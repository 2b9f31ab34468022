package kraal.testing;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.Instrumentation;
import java.security.ProtectionDomain;
import javassist.CannotCompileException;
import javassist.ClassPool;
import javassist.CtClass;
import javassist.LoaderClassPath;
import javassist.NotFoundException;
import javassist.expr.ExprEditor;
import javassist.expr.MethodCall;

/**
 * A Java agent that suspends the sender thread of each producer for 20 ms before each call of
 * {@code TransactionManager.nextRequest}, after the arguments of the call have been evaluated.
 */
public final class SlowSender implements ClassFileTransformer {
    private static final String SENDER = "org/apache/kafka/clients/producer/internals/Sender";

    public static void premain(String arguments, Instrumentation instrumentation) {
        instrumentation.addTransformer(new SlowSender());
    }

    @Override
    public byte[] transform(ClassLoader loader, String name, Class<?> type, ProtectionDomain domain, byte[] classFile) {
        if (!SENDER.equals(name)) {
            return null;
        }
        ClassPool pool = new ClassPool();
        pool.appendClassPath(new LoaderClassPath(loader));
        try {
            CtClass sender = pool.makeClass(new ByteArrayInputStream(classFile));
            sender.getDeclaredMethod("maybeSendAndPollTransactionalRequest").instrument(new ExprEditor() {
                @Override
                public void edit(MethodCall call) throws CannotCompileException {
                    if ("nextRequest".equals(call.getMethodName())) {
                        call.replace("{ Thread.sleep(20L); $_ = $proceed($$); }");
                    }
                }
            });
            return sender.toBytecode();
        } catch (IOException | NotFoundException | CannotCompileException e) {
            throw new IllegalStateException(e); // the JVM ignores exceptions of transformers
        }
    }
}
