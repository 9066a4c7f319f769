package barnabas.kafkatests;

import org.junit.platform.engine.DiscoverySelector;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.discovery.DiscoverySelectors;
import org.junit.platform.engine.support.descriptor.ClassSource;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.Launcher;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.TestPlan;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.jar.JarFile;

/**
 * Runs Kafka's JUnit classes and writes one line per test.
 *
 * list JAR                               prints the classes of a test jar that start a cluster
 * run MODULE CLASS LIMIT TEST_LIMIT TSV  runs one class, or CLASS#METHOD; writes the line of each test when it ends
 */
public final class KafkaTests {
    private static final List<String> MARKS = List.of(
        "org/apache/kafka/common/test/api/ClusterTest", "org/apache/kafka/common/test/api/ClusterTemplate",
        "org/apache/kafka/common/test/KafkaClusterTestKit", "integration/utils/EmbeddedKafkaCluster");

    public static void main(String[] args) throws Exception {
        switch (args[0]) {
            case "list" -> list(args[1]);
            case "run" -> run(args[1], args[2], Integer.parseInt(args[3]), args[4], Path.of(args[5]));
            default -> throw new IllegalArgumentException(args[0]);
        }
    }

    // ---- list

    private static void list(String jar) throws IOException {
        List<Class<?>> classes = new ArrayList<>();
        try (JarFile file = new JarFile(jar)) {
            for (String name : file.stream().map(each -> each.getName()).filter(each -> each.endsWith("Test.class")).sorted().toList()) {
                if (name.contains("$")) continue;
                try {
                    Class<?> type = Class.forName(name.replace('/', '.').replaceAll("\\.class$", ""), false, KafkaTests.class.getClassLoader());
                    if (!java.lang.reflect.Modifier.isAbstract(type.getModifiers()) && startsCluster(type)) classes.add(type);
                } catch (LinkageError | ClassNotFoundException e) {
                    System.err.println("left out " + name + ": " + e);
                }
            }
        }
        Launcher launcher = LauncherFactory.create();
        for (Class<?> type : classes) {
            TestPlan plan = launcher.discover(request(type.getName(), "0 s"));
            boolean hasTests = plan.getRoots().stream().flatMap(root -> plan.getDescendants(root).stream())
                .anyMatch(each -> each.getSource().filter(MethodSource.class::isInstance).isPresent());
            if (hasTests) System.out.println(type.getName());
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    /** Whether the byte code of this class or of a superclass names a class that starts a cluster. */
    private static boolean startsCluster(Class<?> type) throws IOException {
        for (Class<?> each = type; each != null && each.getName().contains("kafka"); each = each.getSuperclass()) {
            try (InputStream stream = each.getClassLoader().getResourceAsStream(each.getName().replace('.', '/') + ".class")) {
                String code = new String(stream.readAllBytes(), StandardCharsets.ISO_8859_1);
                if (MARKS.stream().anyMatch(code::contains)) return true;
            }
        }
        return false;
    }

    private static LauncherDiscoveryRequest request(String name, String testLimit) {
        LauncherDiscoveryRequestBuilder builder = LauncherDiscoveryRequestBuilder.request()
            .selectors(name.contains("#") ? methods(name) : List.of(DiscoverySelectors.selectClass(name)))
            .configurationParameter("junit.jupiter.execution.parallel.enabled", "false")
            .configurationParameter("junit.jupiter.extensions.autodetection.enabled", "true");  // those of the adapter
        if (!testLimit.startsWith("0")) {
            builder.configurationParameter("junit.jupiter.execution.timeout.testable.method.default", testLimit);
        }
        return builder.build();
    }

    /** CLASS#METHOD: all methods of this name, of which JUnit runs those that are tests. */
    private static List<? extends DiscoverySelector> methods(String name) {
        String[] parts = name.split("#");
        try {
            Class<?> type = Class.forName(parts[0]);
            return Arrays.stream(type.getMethods()).filter(each -> each.getName().equals(parts[1]))
                .map(each -> DiscoverySelectors.selectMethod(type, each)).toList();
        } catch (ClassNotFoundException e) {
            throw new IllegalArgumentException(e);
        }
    }

    // ---- run

    private static void run(String module, String name, int limit, String testLimit, Path tsv) throws Exception {
        Lines lines = new Lines(module, name.split("#")[0], tsv);
        Thread watchdog = new Thread(() -> {
            try {
                Thread.sleep(limit * 1000L);
            } catch (InterruptedException e) {
                return;
            }
            lines.cut(limit);
            end(3);
        }, "junit-watchdog");  // Kafka's check for leaked threads ignores this prefix
        watchdog.setDaemon(true);
        watchdog.start();
        // Discard what tests and tools print; the results go to the file.
        if (!Boolean.getBoolean("barnabas.show")) System.setOut(new PrintStream(PrintStream.nullOutputStream()));
        try {
            LauncherFactory.create().execute(request(name, testLimit), lines);
        } catch (Throwable e) {
            lines.write(name, "failed", 0, "the class cannot be run: " + e);
        }
        end(0);
    }

    /** Ends this JVM and every process that it started. */
    private static void end(int code) {
        ProcessHandle.current().descendants().forEach(ProcessHandle::destroyForcibly);
        Runtime.getRuntime().halt(code);
    }

    private static final class Lines implements TestExecutionListener {
        private final String module;
        private final String type;
        private final Path tsv;
        private final Map<String, Long> running = new ConcurrentHashMap<>();
        private final Map<String, String> unfinished = new TreeMap<>();
        private boolean cut;

        Lines(String module, String type, Path tsv) {
            this.module = module;
            this.type = type;
            this.tsv = tsv;
        }

        @Override
        public synchronized void testPlanExecutionStarted(TestPlan plan) {
            for (TestIdentifier root : plan.getRoots()) {
                for (TestIdentifier each : plan.getDescendants(root)) {
                    if (isMethod(each)) unfinished.put(each.getUniqueId(), methodName(each));
                }
            }
        }

        @Override
        public synchronized void executionStarted(TestIdentifier test) {
            if (test.isTest()) running.put(test.getUniqueId(), System.nanoTime());
        }

        @Override
        public synchronized void executionSkipped(TestIdentifier test, String reason) {
            if (cut) return;
            unfinished.remove(test.getUniqueId());
            if (test.isTest() || isMethod(test)) write(title(test), "skipped", 0, reason);
        }

        @Override
        public synchronized void executionFinished(TestIdentifier test, TestExecutionResult result) {
            if (cut) return;
            unfinished.remove(test.getUniqueId());
            Throwable error = result.getThrowable().orElse(null);
            if (test.isTest()) {
                double seconds = (System.nanoTime() - running.remove(test.getUniqueId())) / 1e9;
                write(title(test), status(result, error), seconds, message(error));
            } else if (result.getStatus() != TestExecutionResult.Status.SUCCESSFUL) {
                // A container: its set-up failed, so none of its tests runs.
                List<String> below = unfinished.keySet().stream().filter(each -> each.startsWith(test.getUniqueId())).toList();
                if (below.isEmpty()) write(title(test), status(result, error), 0, message(error));
                for (String each : below) write(unfinished.remove(each), status(result, error), 0, message(error));
            }
        }

        /** The class took too long: the running test and those that it kept from running are timeouts. */
        synchronized void cut(int limit) {
            cut = true;
            running.forEach((id, begun) -> {
                int last = id.lastIndexOf("[test-template-invocation");
                String above = last > 0 ? id.substring(0, last - 1) : id;
                String name = unfinished.getOrDefault(above, unfinished.getOrDefault(id, id));
                write(name, "timeout", (System.nanoTime() - begun) / 1e9, "cut: the class had " + limit + " s");
                unfinished.remove(above);
                unfinished.remove(id);
            });
            unfinished.values().forEach(name -> write(name, "timeout", 0, "not reached: the class had " + limit + " s"));
        }

        private static boolean isMethod(TestIdentifier test) {
            return test.getSource().filter(MethodSource.class::isInstance).isPresent() && !test.getUniqueId().contains("-invocation:");
        }

        private static String methodName(TestIdentifier test) {
            return test.getSource().filter(MethodSource.class::isInstance).map(each -> ((MethodSource) each).getMethodName())
                .orElse(test.getDisplayName());
        }

        /** The name of the method, and which of its invocations this is. */
        private static String title(TestIdentifier test) {
            String name = methodName(test);
            if (test.getSource().filter(ClassSource.class::isInstance).isPresent()) return "(class)";
            String shown = test.getDisplayName();
            var number = java.util.regex.Pattern.compile("\\[(\\d+)\\]").matcher(shown);
            String kind = shown.contains("Type=Raft-Combined") ? " combined" : shown.contains("Type=Raft-Isolated") ? " isolated" : "";
            String rest = kind.isEmpty() && !shown.startsWith(name) ? " " + shown : "";
            return name + (number.find() ? "[" + number.group(1) + "]" : "") + kind + rest;
        }

        private static String status(TestExecutionResult result, Throwable error) {
            if (result.getStatus() == TestExecutionResult.Status.SUCCESSFUL) return "passed";
            for (Throwable each = error; each != null; each = each.getCause()) {
                if (each.getClass().getSimpleName().equals("LooksInside")) return "aborted";
            }
            if (result.getStatus() == TestExecutionResult.Status.ABORTED) return "aborted";
            if (error instanceof java.util.concurrent.TimeoutException && String.valueOf(error.getMessage()).contains("timed out after")
                && String.valueOf(error.getMessage()).contains("(")) return "timeout";
            return "failed";
        }

        /** The first line of an error, with the second one if the first ends in a colon. */
        private static String firstLine(Throwable error) {
            if (error instanceof org.opentest4j.AssertionFailedError failed && failed.isExpectedDefined() && failed.isActualDefined()) {
                String expected = failed.getExpected().getStringRepresentation();
                String actual = failed.getActual().getStringRepresentation();
                int same = 0;
                while (same < Math.min(expected.length(), actual.length()) && expected.charAt(same) == actual.charAt(same)) same++;
                if (same > 80) {
                    return "expected: <" + from(expected, same) + "> but was: <" + from(actual, same) + ">";
                }
            }
            List<String> lines = error.toString().lines().map(String::strip).filter(each -> !each.isEmpty()).toList();
            return lines.size() > 1 && lines.get(0).endsWith(":") ? lines.get(0) + " " + lines.get(1) : lines.get(0);
        }

        /** An excerpt of a long value around the place where it differs from another. */
        private static String from(String text, int place) {
            String shown = text.substring(place - 60, Math.min(text.length(), place + 240)).replaceAll("\\s+", " ");
            return "…" + shown + (text.length() > place + 240 ? "…" : "");
        }

        private static String message(Throwable error) {
            if (error == null) return "";
            StringBuilder said = new StringBuilder(firstLine(error));
            Throwable cause = error.getCause();
            for (int depth = 0; cause != null && depth < 3; depth++, cause = cause.getCause()) {
                String line = firstLine(cause);
                if (said.indexOf(line) < 0) said.append(" <- ").append(line);
            }
            String text = said.toString().replace('\t', ' ');
            return text.length() > 700 ? text.substring(0, 700) + "…" : text;
        }

        void write(String test, String status, double seconds, String message) {
            String shortType = type.replaceFirst("^org\\.apache\\.kafka\\.", "");
            String line = String.join("\t", module, shortType, test.replace('\t', ' ').replace('\n', ' '),
                status, String.format(Locale.ROOT, "%.1f", seconds), message) + "\n";
            try {
                Files.writeString(tsv, line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            } catch (IOException e) {
                e.printStackTrace();
            }
        }
    }
}
