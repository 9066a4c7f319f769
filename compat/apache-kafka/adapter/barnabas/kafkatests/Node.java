package barnabas.kafkatests;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/** One node of the cluster: its properties file and its Barnabas process. */
public final class Node {
    private static final long START_LIMIT_MS = 30_000;
    private static final long STOP_LIMIT_MS = 30_000;
    private static final Set<Integer> TAKEN = ConcurrentHashMap.newKeySet();

    public final int id;
    public final boolean isBroker;
    public final boolean isController;
    public final Map<String, Object> settings;
    public final Map<String, Object> asked;  // the settings as the test gave them, before ports were chosen
    private final Path file;
    private final Path output;
    private final Path errors;
    private Process process;
    private boolean wanted;

    public Node(int id, boolean isBroker, boolean isController, Map<String, Object> asked, Map<String, Object> settings,
            Path directory) {
        this.id = id;
        this.isBroker = isBroker;
        this.isController = isController;
        this.asked = asked;
        this.settings = settings;
        this.file = directory.resolve("node-" + id + ".properties");
        this.output = directory.resolve("node-" + id + ".out");
        this.errors = directory.resolve("node-" + id + ".err");
    }

    public boolean isCombined() {
        return isBroker && isController;
    }

    /** Starts the process unless it runs; {@link #awaitReady} waits until it is ready. */
    public synchronized void start() {
        if (isRunning()) return;
        try {
            Properties properties = new Properties();
            settings.forEach((name, value) -> properties.setProperty(name, text(value)));
            try (Writer writer = Files.newBufferedWriter(file, StandardCharsets.UTF_8)) {
                properties.store(writer, null);
            }
            Files.writeString(output, "");
            List<String> command = new ArrayList<>(Arrays.asList(System.getProperty("barnabas", "barnabas").split(" ")));
            // Kafka ignores a name that it does not know; some tests set log.unclean.leader.election.enable.
            command.addAll(List.of("broker", file.toString(), "--lenient", "--log-level", System.getProperty("barnabas.log", "warning")));
            process = new ProcessBuilder(command)
                .redirectInput(new File("/dev/null"))
                .redirectOutput(output.toFile())
                .redirectError(ProcessBuilder.Redirect.appendTo(errors.toFile()))
                .start();
            wanted = true;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Fails with the error output of a process that does not start. */
    public void awaitReady() {
        long end = System.currentTimeMillis() + START_LIMIT_MS;
        while (!read(output).contains("ready ")) {
            if (!process.isAlive()) {
                wanted = false;
                throw new DidNotStart("Barnabas node " + id + " did not start: " + complaint());
            }
            if (System.currentTimeMillis() > end) {
                kill();
                throw new DidNotStart("Barnabas node " + id + " was not ready in " + START_LIMIT_MS / 1000 + " s: " + complaint());
            }
            pause(20);
        }
    }

    /** Controlled shutdown: sends SIGTERM and waits for the end. */
    public synchronized void stop() {
        wanted = false;
        if (process == null) return;
        process.destroy();
        try {
            if (!process.waitFor(STOP_LIMIT_MS, TimeUnit.MILLISECONDS)) kill();
        } catch (InterruptedException e) {
            kill();
            Thread.currentThread().interrupt();
        }
    }

    public synchronized void askToStop() {
        wanted = false;
        if (process != null) process.destroy();
    }

    private void kill() {
        wanted = false;
        process.descendants().forEach(ProcessHandle::destroyForcibly);
        process.destroyForcibly();
    }

    public boolean isRunning() {
        return process != null && process.isAlive();
    }

    public boolean wasStarted() {
        return process != null;
    }

    /** The error output of a process that ended without being asked to; null if that did not happen. */
    public String unexpectedEnd() {
        if (!wanted || process == null || process.isAlive()) return null;
        return "Barnabas node " + id + " ended unexpectedly with exit status " + process.exitValue() + ": " + complaint();
    }

    /** The port of a listener by its name, in upper or lower case. */
    public int port(String listener) {
        for (String each : text(settings.get("listeners")).split(",")) {
            String[] parts = each.trim().split("://|:(?=[0-9]+$)");
            if (parts[0].equalsIgnoreCase(listener)) return Integer.parseInt(parts[2]);
        }
        throw new IllegalArgumentException("node " + id + " has no listener " + listener);
    }

    private String complaint() {
        List<String> lines = read(errors).lines()
            .filter(each -> !each.isBlank() && !each.matches(".* WARNING barnabas.cli.serve: .* has no effect: .*")).toList();
        List<String> said = lines.stream().filter(each -> !each.matches("^[0-9-]+ [0-9:,]+ (WARNING|INFO|DEBUG) .*")).toList();
        List<String> shown = said.isEmpty() ? lines : said;
        String all = shown.isEmpty() ? "(no error output)" : String.join(" | ", shown.subList(0, Math.min(8, shown.size())));
        return all.replace(file.getParent().toString() + File.separator, "");
    }

    private static String read(Path path) {
        try {
            return Files.exists(path) ? Files.readString(path) : "";
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** A value as a properties file would hold it. */
    public static String text(Object value) {
        if (value instanceof Iterable<?> many) {
            List<String> parts = new ArrayList<>();
            many.forEach(each -> parts.add(text(each)));
            return String.join(",", parts);
        }
        if (value instanceof org.apache.kafka.common.config.types.Password password) return password.value();
        if (value instanceof Class<?> type) return type.getName();
        return String.valueOf(value);
    }

    /** A free port below the range for outgoing connections, so that none of those takes it before the node listens. */
    public static int freePort() {
        for (int attempt = 0; attempt < 1000; attempt++) {
            int port = ThreadLocalRandom.current().nextInt(15_000, 32_000);
            if (!TAKEN.add(port)) continue;
            try (ServerSocket socket = new ServerSocket()) {
                socket.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), port));
                return port;
            } catch (IOException e) {
                // in use: try another
            }
        }
        throw new IllegalStateException("no free port");
    }

    static void pause(long milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new org.apache.kafka.common.errors.InterruptException(e);
        }
    }

    public static final class DidNotStart extends RuntimeException {
        public DidNotStart(String message) {
            super(message);
        }
    }
}
