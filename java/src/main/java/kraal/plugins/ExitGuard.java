package kraal.plugins;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.Instrumentation;
import java.security.ProtectionDomain;
import javassist.bytecode.Bytecode;
import javassist.bytecode.ClassFile;
import javassist.bytecode.CodeAttribute;
import javassist.bytecode.ConstPool;

/**
 * Turns {@code System.exit} in a plugin into an error of the calling thread, so that only that thread's task fails.
 *
 * <p>A class transformer makes {@link Runtime#exit} and {@link Runtime#halt} call {@link #check} first, even if they are
 * called by reflection. A SecurityManager is no alternative: it would change the threads of the common fork-join pool,
 * and cannot be enabled since Java 24.
 */
public final class ExitGuard {
    private static final String RUNTIME = "java/lang/Runtime";
    /** Whether the process may exit. */
    static volatile boolean mayExit;

    private ExitGuard() {
    }

    static void install(Instrumentation instrumentation) {
        Transformer transformer = new Transformer();
        instrumentation.addTransformer(transformer, true);
        try {
            instrumentation.retransformClasses(Runtime.class);
        } catch (Exception | LinkageError e) {
            transformer.failure = e;
        } finally {
            instrumentation.removeTransformer(transformer);
        }
        if (transformer.failure != null) {
            System.out.println("WARN|" + ExitGuard.class.getName() + "||System.exit in a plugin would end all plugins of"
                + " this worker, because ExitGuard cannot be installed: " + transformer.failure);
        }
    }

    /** Throws SecurityException unless the process may exit. Public because the transformed {@link Runtime} calls it. */
    public static void check(int status) {
        if (!mayExit) {
            throw new SecurityException(
                "The plugin called System.exit(" + status + "), which would have ended all plugins of this worker");
        }
    }

    /** Halts the process. */
    static void halt() {
        mayExit = true;
        Runtime.getRuntime().halt(0);
    }

    private static final class Transformer implements ClassFileTransformer {
        private Throwable failure;

        @Override
        public byte[] transform(
            ClassLoader loader, String name, Class<?> type, ProtectionDomain domain, byte[] classFile) {
            if (!RUNTIME.equals(name)) {
                return null;
            }
            try {
                ClassFile runtime = new ClassFile(new DataInputStream(new ByteArrayInputStream(classFile)));
                Bytecode check = makeCheck(runtime.getConstPool());
                for (String method : new String[] {"exit", "halt"}) {
                    CodeAttribute code = runtime.getMethod(method).getCodeAttribute();
                    code.iterator().insert(check.get());
                    code.setMaxStack(code.getMaxStack() + check.getMaxStack());
                }
                ByteArrayOutputStream bytes = new ByteArrayOutputStream();
                runtime.write(new DataOutputStream(bytes));
                return bytes.toByteArray();
            } catch (Exception | LinkageError e) {
                failure = e; // the JVM ignores exceptions of transformers
                return null;
            }
        }

        /** Returns code that calls {@link #check} by reflection, because JDK classes cannot refer to this class. */
        private static Bytecode makeCheck(ConstPool constants) {
            Bytecode code = new Bytecode(constants);
            code.addInvokestatic("java.lang.invoke.MethodHandles", "publicLookup", "()Ljava/lang/invoke/MethodHandles$Lookup;");
            code.addLdc(ExitGuard.class.getName());
            code.addIconst(1);
            code.addInvokestatic("java.lang.ClassLoader", "getSystemClassLoader", "()Ljava/lang/ClassLoader;");
            code.addInvokestatic(
                "java.lang.Class", "forName", "(Ljava/lang/String;ZLjava/lang/ClassLoader;)Ljava/lang/Class;");
            code.addLdc("check");
            code.addGetstatic("java.lang.Void", "TYPE", "Ljava/lang/Class;");
            code.addGetstatic("java.lang.Integer", "TYPE", "Ljava/lang/Class;");
            code.addInvokestatic("java.lang.invoke.MethodType", "methodType",
                "(Ljava/lang/Class;Ljava/lang/Class;)Ljava/lang/invoke/MethodType;");
            code.addInvokevirtual("java.lang.invoke.MethodHandles$Lookup", "findStatic",
                "(Ljava/lang/Class;Ljava/lang/String;Ljava/lang/invoke/MethodType;)Ljava/lang/invoke/MethodHandle;");
            code.addIload(1);
            code.addInvokevirtual("java.lang.invoke.MethodHandle", "invokeExact", "(I)V");
            return code;
        }
    }
}
