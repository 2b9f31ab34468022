import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.io.IOException;
import java.io.InputStream;
import java.io.ObjectOutputStream;
import java.io.StringReader;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.function.Consumer;
import javax.crypto.spec.SecretKeySpec;
import org.apache.kafka.connect.runtime.distributed.ConnectProtocol;
import org.apache.kafka.connect.runtime.distributed.Crypto;
import org.apache.kafka.connect.runtime.distributed.ExtendedAssignment;
import org.apache.kafka.connect.runtime.distributed.ExtendedWorkerState;
import org.apache.kafka.connect.runtime.distributed.IncrementalCooperativeConnectProtocol;
import org.apache.kafka.connect.runtime.rest.InternalRequestSignature;
import org.apache.kafka.connect.util.ConnectorTaskId;
import org.apache.kafka.connect.util.SafeObjectInputStream;
import org.eclipse.jetty.client.Request;
import org.eclipse.jetty.http.HttpFields;

/**
 * Prints test vectors as JSON: metadata and assignments of groups, signatures of internal requests, and the entries of offset files
 * and properties files. The first argument is the directory of the offset files, in which the program also writes Java's own. The
 * second argument is a JSON file with the texts of properties files.
 */
public class ProtocolBytes {
    private static final String URL = "http://w1:8083/";
    private static final ConnectorTaskId TASK = new ConnectorTaskId("c1", 0);
    private static final short V0 = ConnectProtocol.CONNECT_PROTOCOL_V0;
    private static final short V1 = IncrementalCooperativeConnectProtocol.CONNECT_PROTOCOL_V1;
    private static final short V2 = IncrementalCooperativeConnectProtocol.CONNECT_PROTOCOL_V2;
    private static final short OK = ConnectProtocol.Assignment.NO_ERROR;

    public static void main(String[] arguments) throws Exception {
        Path offsets = Path.of(arguments[0]);
        // Some texts contain unpaired surrogates, which UTF-8 cannot encode.
        ObjectMapper mapper = JsonMapper.builder().enable(JsonWriteFeature.ESCAPE_NON_ASCII).build();
        Map<String, Object> results = new LinkedHashMap<>();
        results.put("group", groupVectors());
        results.put("signatures", List.of(signature("[{\"a\":\"b\"}]"), signature("")));
        writeOffsetFiles(offsets);
        results.put("read", readOffsetFiles(offsets));
        results.put("properties", parseProperties(List.of(mapper.readValue(Path.of(arguments[1]).toFile(), String[].class))));
        System.out.println(mapper.writeValueAsString(results));
    }

    private static Map<String, String> groupVectors() {
        ExtendedAssignment assignment = assignment(V2, OK, 5, List.of("c1"), List.of(TASK), List.of(), 0);
        Map<String, String> vectors = new LinkedHashMap<>();
        vectors.put("metadata v0", hex(ConnectProtocol.serializeMetadata(new ConnectProtocol.WorkerState(URL, 5))));
        vectors.put("metadata v1, null allocation", hex(metadata(null, false)));
        vectors.put("assignment v0 of c1 and c1-0", hex(ConnectProtocol.serializeAssignment(
            new ConnectProtocol.Assignment(OK, "m1", URL, 5, List.of("c1"), List.of(TASK)))));
        vectors.put("assignment v2 of c1 and c1-0", hex(serialize(assignment)));
        vectors.put("assignment v2 that revokes c1-1", hex(serialize(
            assignment(V2, OK, 7, List.of(), List.of(), List.of(new ConnectorTaskId("c1", 1)), 0))));
        vectors.put("assignment v2 with a delay", hex(serialize(
            assignment(V2, OK, 7, List.of(), List.of(), List.of(), 300_000))));
        vectors.put("assignment v1 that failed", hex(serialize(
            assignment(V1, ConnectProtocol.Assignment.CONFIG_MISMATCH, 9, List.of(), List.of(), List.of(), 0))));
        vectors.put("metadata v2 with an allocation", hex(metadata(assignment, true)));
        return vectors;
    }

    private static ExtendedAssignment assignment(
            short version, short error, long offset, List<String> connectors, List<ConnectorTaskId> tasks,
            List<ConnectorTaskId> revoked, int delay) {
        return new ExtendedAssignment(version, error, "m1", URL, offset, connectors, tasks, List.of(), revoked, delay);
    }

    private static ByteBuffer serialize(ExtendedAssignment assignment) {
        return IncrementalCooperativeConnectProtocol.serializeAssignment(assignment, assignment.version() == V2);
    }

    private static ByteBuffer metadata(ExtendedAssignment allocation, boolean sessioned) {
        return IncrementalCooperativeConnectProtocol.serializeMetadata(new ExtendedWorkerState(URL, 5, allocation), sessioned);
    }

    private static String hex(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return HexFormat.of().formatHex(bytes);
    }

    /** Returns the signature headers that Connect adds to an internal request, together with the key and the body. */
    private static Map<String, String> signature(String body) {
        String key = "0".repeat(32);
        String algorithm = "HmacSHA256";
        HttpFields.Mutable headers = HttpFields.build();
        InvocationHandler handler = (proxy, method, arguments) -> {
            if (method.getName().equals("headers")) {
                @SuppressWarnings("unchecked")
                Consumer<HttpFields.Mutable> change = (Consumer<HttpFields.Mutable>) arguments[0];
                change.accept(headers);
            }
            return proxy;
        };
        Request request = (Request) Proxy.newProxyInstance(
            Request.class.getClassLoader(), new Class<?>[] {Request.class}, handler);
        InternalRequestSignature.addToRequest(
            Crypto.SYSTEM, new SecretKeySpec(key.getBytes(StandardCharsets.UTF_8), algorithm),
            body.getBytes(StandardCharsets.UTF_8), algorithm, request);
        Map<String, String> vector = new LinkedHashMap<>();
        vector.put("key", key);
        vector.put("algorithm", headers.get(InternalRequestSignature.SIGNATURE_ALGORITHM_HEADER));
        vector.put("body", body);
        vector.put("signature", headers.get(InternalRequestSignature.SIGNATURE_HEADER));
        return vector;
    }

    /** Writes maps in the format of FileOffsetBackingStore.save. */
    private static void writeOffsetFiles(Path directory) throws IOException {
        Map<String, HashMap<byte[], byte[]>> maps = new LinkedHashMap<>();
        for (String name : List.of("empty", "nulls", "shared", "hundred", "twelve")) {
            maps.put(name, new HashMap<>());
        }
        maps.get("nulls").put(bytes("[\"x\",{\"p\":1}]"), null);
        maps.get("nulls").put(null, bytes("{\"o\":1}"));
        maps.get("nulls").put(bytes("not json"), bytes(""));
        byte[] offset = bytes("{\"o\":7}");
        maps.get("shared").put(bytes("[\"a\",{\"p\":1}]"), offset);
        maps.get("shared").put(bytes("[\"b\",{\"p\":1}]"), offset);
        for (int i = 0; i < 100; i++) {
            maps.get("hundred").put(bytes("[\"many\",{\"p\":" + i + "}]"), bytes("{\"o\":" + i + "}"));
        }
        for (int i = 0; i < 12; i++) {
            maps.get("twelve").put(bytes("[\"twelve\",{\"p\":" + i + "}]"), bytes("{}"));
        }
        for (Map.Entry<String, HashMap<byte[], byte[]>> entry : maps.entrySet()) {
            write(directory.resolve("java-" + entry.getKey() + ".bin"), entry.getValue());
        }
        write(directory.resolve("java-string.bin"), "not a map");
    }

    private static void write(Path file, Object object) throws IOException {
        try (ObjectOutputStream stream = new ObjectOutputStream(Files.newOutputStream(file))) {
            stream.writeObject(object);
        }
    }

    /** Reads the files that Kraal wrote, as FileOffsetBackingStore.load does; returns their entries. */
    private static Map<String, List<String>> readOffsetFiles(Path directory) throws Exception {
        Map<String, List<String>> files = new LinkedHashMap<>();
        for (String name : List.of("empty", "nulls", "store", "thirteen")) {
            List<String> lines = new ArrayList<>();
            try (InputStream file = Files.newInputStream(directory.resolve("kraal-" + name + ".bin"));
                    SafeObjectInputStream stream = new SafeObjectInputStream(file)) {
                @SuppressWarnings("unchecked")
                Map<byte[], byte[]> map = (Map<byte[], byte[]>) stream.readObject();
                map.forEach((key, value) -> lines.add(format(key) + " " + format(value)));
            }
            Collections.sort(lines);
            files.put("kraal-" + name + ".bin", lines);
        }
        return files;
    }

    private static List<Map<String, String>> parseProperties(List<String> texts) throws IOException {
        List<Map<String, String>> entries = new ArrayList<>();
        for (String text : texts) {
            Properties properties = new Properties();
            try {
                properties.load(new StringReader(text));
            } catch (IllegalArgumentException invalid) {
                properties = null;
            }
            Map<String, String> pairs = properties == null ? null : new HashMap<>();
            if (properties != null) {
                properties.forEach((key, value) -> pairs.put((String) key, (String) value));
            }
            entries.add(pairs);
        }
        return entries;
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String format(byte[] bytes) {
        return bytes == null ? "null" : bytes.length == 0 ? "-" : HexFormat.of().formatHex(bytes);
    }
}
