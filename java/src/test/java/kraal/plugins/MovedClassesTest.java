package kraal.plugins;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.lang.reflect.InvocationTargetException;
import java.util.stream.Stream;
import javassist.bytecode.AccessFlag;
import javassist.bytecode.Bytecode;
import javassist.bytecode.ClassFile;
import javassist.bytecode.ConstPool;
import javassist.bytecode.MethodInfo;
import javassist.bytecode.Opcode;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Tests for {@link MovedClasses} in a JVM with the agent.
 *
 * <p>The property {@code before44} lists the classes of Kafka 4.3 that Kafka 4.4 lacks.
 */
class MovedClassesTest {
    private static final String UTILS = "org.apache.kafka.common.utils.";

    static Stream<String> before44() {
        return Stream.of(System.getProperty("before44").split(","));
    }

    @ParameterizedTest
    @MethodSource("before44")
    void oldNamesResolveToCurrentClasses(String name) throws Exception {
        String simple = name.substring(UTILS.length());
        String expected = "CollectionUtils".equals(simple) ? name : UTILS + "internals." + simple; // removed in Kafka 4.4
        assertEquals(expected, resolve(name).getName());
        assertEquals(expected, resolve("[L" + name + ";").getComponentType().getName());
    }

    @Test
    void otherNamesAreUnchanged() throws Exception {
        assertEquals(UTILS + "Utils", resolve(UTILS + "Utils").getName());
        NoClassDefFoundError missing = assertThrows(NoClassDefFoundError.class, () -> resolve("relocated." + UTILS + "Exit"));
        assertEquals("relocated/org/apache/kafka/common/utils/Exit", missing.getMessage());
    }

    /** Returns the class to which this name in a constant pool resolves. */
    private static Class<?> resolve(String name) throws Exception {
        ClassFile user = new ClassFile(false, "kraal.plugins.User", "java.lang.Object");
        ConstPool constants = user.getConstPool();
        Bytecode code = new Bytecode(constants, 1, 0);
        code.addLdc(constants.addClassInfo(name));
        code.addOpcode(Opcode.ARETURN);
        MethodInfo method = new MethodInfo(constants, "type", "()Ljava/lang/Class;");
        method.setAccessFlags(AccessFlag.PUBLIC | AccessFlag.STATIC);
        method.setCodeAttribute(code.toCodeAttribute());
        user.addMethod(method);
        user.setMajorVersion(ClassFile.JAVA_11);
        user.setAccessFlags(AccessFlag.PUBLIC | AccessFlag.SUPER);
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        user.write(new DataOutputStream(bytes));
        Class<?> type = new ClassLoader(MovedClassesTest.class.getClassLoader()) {
            Class<?> define() {
                return defineClass("kraal.plugins.User", bytes.toByteArray(), 0, bytes.size());
            }
        }.define();
        try {
            return (Class<?>) type.getMethod("type").invoke(null);
        } catch (InvocationTargetException e) {
            if (e.getCause() instanceof NoClassDefFoundError missing) {
                throw missing;
            }
            throw e;
        }
    }
}
