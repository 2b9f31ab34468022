package kraal.plugins;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.Instrumentation;
import java.net.JarURLConnection;
import java.nio.charset.StandardCharsets;
import java.security.ProtectionDomain;
import java.util.HashSet;
import java.util.Set;
import java.util.jar.JarFile;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Lets plugins refer to classes by the names that the classes had before Kafka 4.4. For example,
 * {@code org.apache.kafka.common.utils.Exit} is now {@code org.apache.kafka.common.utils.internals.Exit} (KAFKA-20297).
 *
 * <p>This class transformer replaces the old names in the constant pool of each loaded class, including descriptors,
 * signatures and strings. Both names thus refer to one class with one state, and instances can be passed to Kafka.
 * A name that a plugin composes at runtime is not replaced.
 */
final class MovedClasses implements ClassFileTransformer {
    private static final String OLD_PACKAGE = "org/apache/kafka/common/utils/";
    private static final String NEW_PACKAGE = OLD_PACKAGE + "internals/";
    private static final String CLASS_SUFFIX = ".class";
    /** Matches a name on its own or in a descriptor, but not the names of relocated copies, which have a prefix. */
    private static final Pattern NAME = Pattern.compile("(?<![^L])(org([./])apache\\2kafka\\2common\\2utils\\2)(\\w+)");
    /** The number of bytes that follow the tag of a constant, by tag. Source: Java Virtual Machine Specification, 4.4. */
    private static final int[] SIZES = {0, 0, 0, 4, 4, 8, 8, 2, 2, 4, 4, 4, 4, 0, 0, 3, 2, 4, 4, 2, 2};
    private static final int UTF8 = 1;
    private static final int LONG = 5;
    private static final int DOUBLE = 6;

    private final Set<String> movedNames;

    private MovedClasses(Set<String> movedNames) {
        this.movedNames = movedNames;
    }

    static void install(Instrumentation instrumentation) {
        try {
            instrumentation.addTransformer(new MovedClasses(findMovedNames()));
        } catch (IOException | RuntimeException e) {
            System.out.println("Plugins that were built for Kafka before 4.4 may not find classes, because Kafka's jar cannot be read: " + e);
        }
    }

    /** Returns the simple names of the top-level classes that this Kafka version has in {@code internals} only. */
    private static Set<String> findMovedNames() throws IOException {
        String oldClass = OLD_PACKAGE + "Utils" + CLASS_SUFFIX;
        JarURLConnection connection = (JarURLConnection) ClassLoader.getSystemResource(oldClass).openConnection();
        connection.setUseCaches(false);
        Set<String> names = new HashSet<>();
        try (JarFile jar = connection.getJarFile()) {
            jar.stream().map(entry -> entry.getName()).filter(MovedClasses::isOuter).forEach(name -> {
                if (jar.getEntry(OLD_PACKAGE + name.substring(NEW_PACKAGE.length())) == null) {
                    names.add(name.substring(NEW_PACKAGE.length(), name.length() - CLASS_SUFFIX.length()));
                }
            });
        }
        return names;
    }

    private static boolean isOuter(String entry) {
        return entry.startsWith(NEW_PACKAGE) && entry.endsWith(CLASS_SUFFIX) && entry.indexOf('$') < 0;
    }

    /**
     * Returns null (no change) for classes of the bootstrap loader, for classes without a name in the old package, and for
     * classes that cannot be parsed, because the JVM reports the error.
     */
    @Override
    public byte[] transform(ClassLoader loader, String name, Class<?> type, ProtectionDomain domain, byte[] classFile) {
        if (loader == null || !mayContainOldName(classFile)) {
            return null;
        }
        try {
            return rename(classFile);
        } catch (IOException | RuntimeException e) {
            return null;
        }
    }

    private static boolean mayContainOldName(byte[] classFile) {
        String text = new String(classFile, StandardCharsets.ISO_8859_1);
        return text.contains(OLD_PACKAGE) || text.contains(OLD_PACKAGE.replace('/', '.'));
    }

    private byte[] rename(byte[] classFile) throws IOException {
        DataInputStream input = new DataInputStream(new ByteArrayInputStream(classFile));
        ByteArrayOutputStream bytes = new ByteArrayOutputStream(classFile.length);
        DataOutputStream output = new DataOutputStream(bytes);
        output.writeLong(input.readLong()); // magic and version
        int count = input.readUnsignedShort();
        output.writeShort(count);
        for (int index = 1; index < count; index++) {
            int tag = input.readUnsignedByte();
            output.writeByte(tag);
            if (tag == UTF8) {
                output.writeUTF(rename(input.readUTF()));
            } else {
                output.write(input.readNBytes(SIZES[tag]));
            }
            if (tag == LONG || tag == DOUBLE) {
                index++; // long and double take two indexes
            }
        }
        input.transferTo(output);
        return bytes.toByteArray();
    }

    private String rename(String constant) {
        Matcher names = NAME.matcher(constant);
        return names.replaceAll(name -> Matcher.quoteReplacement(
            movedNames.contains(name.group(3)) ? name.group(1) + "internals" + name.group(2) + name.group(3) : name.group()));
    }
}
