package kraal.plugins.chains;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.SecureRandom;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.common.utils.Utils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Receives batches of records from Python over the loopback interface, and returns the results of their {@link Chain}.
 *
 * <p>A connection starts with the token. Each request that follows is a {@link Frame} with the number of a chain; the
 * response is also a frame. Each connection is served by its own thread until it is closed.
 */
public final class ChainServer implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(ChainServer.class);
    private static final int TOKEN_BYTES = 16;
    private static final int BUFFER_BYTES = 1 << 16;
    private static final int TOKEN_TIMEOUT_MS = 10_000;
    private ServerSocket serverSocket;
    private final String token;
    private final Map<Long, Chain<?, ?>> chains = new ConcurrentHashMap<>();

    /** The server starts to listen when its first chain is added. */
    public ChainServer() {
        byte[] secret = new byte[TOKEN_BYTES];
        new SecureRandom().nextBytes(secret);
        token = HexFormat.of().formatHex(secret);
    }

    /** Adds a chain; returns {@code {"port": ..., "token": ...}} for its batches. */
    public Map<String, Object> add(long number, Chain<?, ?> chain) throws IOException {
        int port = port();
        Chain<?, ?> previous = chains.put(number, chain);
        if (previous != null) { // the response of the earlier request was lost
            previous.close();
        }
        return Map.of("port", port, "token", token);
    }

    /** Starts to listen if necessary; returns the port. */
    private synchronized int port() throws IOException {
        if (serverSocket == null) {
            ServerSocket server = new ServerSocket(0, 0, InetAddress.getByName("127.0.0.1"));
            serverSocket = server;
            start(() -> accept(server), "kraal-chains");
        }
        return serverSocket.getLocalPort();
    }

    /** Closes a chain, if it still exists. */
    public void remove(long number) {
        Chain<?, ?> chain = chains.remove(number);
        if (chain != null) {
            chain.close();
        }
    }

    /** Closes all chains and stops listening. */
    @Override
    public synchronized void close() throws IOException {
        if (serverSocket != null) {
            serverSocket.close();
        }
        List.copyOf(chains.keySet()).forEach(this::remove);
    }

    private static void start(Runnable work, String name) {
        Thread thread = new Thread(work, name);
        thread.setDaemon(true);
        thread.start();
    }

    private void accept(ServerSocket server) {
        while (!server.isClosed()) {
            try {
                serveOnThread(server.accept());
            } catch (IOException | OutOfMemoryError e) { // no file descriptor or thread is available
                if (!server.isClosed()) {
                    LOG.warn("Failed to accept a connection for batches", e);
                    pause();
                }
            }
        }
    }

    private void serveOnThread(Socket socket) throws IOException {
        try {
            start(() -> serve(socket), "kraal-chain-batches");
        } catch (OutOfMemoryError e) {
            socket.close(); // unblocks the peer, which waits for a response
            throw e;
        }
    }

    private static void pause() {
        try {
            Thread.sleep(100);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private void serve(Socket socket) {
        try (socket) {
            socket.setTcpNoDelay(true);
            socket.setSoTimeout(TOKEN_TIMEOUT_MS);
            DataInputStream input = new DataInputStream(new BufferedInputStream(socket.getInputStream(), BUFFER_BYTES));
            DataOutputStream output = new DataOutputStream(new BufferedOutputStream(socket.getOutputStream(), BUFFER_BYTES));
            byte[] received = input.readNBytes(2 * TOKEN_BYTES);
            if (!MessageDigest.isEqual(received, token.getBytes(StandardCharsets.US_ASCII))) {
                return;
            }
            socket.setSoTimeout(0);
            while (true) {
                Frame frame = Frame.read(input);
                respond(frame).write(output);
            }
        } catch (EOFException e) {
            LOG.trace("A connection for batches was closed");
        } catch (IOException e) {
            LOG.debug("A connection for batches ended", e);
        }
    }

    private Frame respond(Frame request) {
        Chain<?, ?> chain = chains.get(((Number) request.head().get("chain")).longValue());
        try {
            if (chain == null) {
                throw new IllegalStateException("the task has ended");
            }
            return chain.process(request);
        } catch (Throwable e) { // anything that a plugin throws: without a response, the JVM would seem to have exited
            return new Frame(Map.of("error", Utils.stackTrace(e).stripTrailing()), List.of());
        }
    }
}
