package kraal.testing;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.config.ConfigDef;

/** The version of the plugins in one jar, and their config keys, one of which only this version has. */
final class Versioned {
    private Versioned() {
    }

    static String version() {
        try (InputStream in = Versioned.class.getResourceAsStream("/version.txt")) {
            return new String(in.readAllBytes(), StandardCharsets.UTF_8).strip();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    static ConfigDef keys() {
        return new ConfigDef()
            .define("key.of." + version(), ConfigDef.Type.INT, 1, ConfigDef.Importance.LOW, "A key of one version.")
            .define("size", ConfigDef.Type.INT, 5, ConfigDef.Importance.LOW, "How many.");
    }
}
