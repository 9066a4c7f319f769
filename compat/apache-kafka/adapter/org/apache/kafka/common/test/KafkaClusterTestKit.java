package org.apache.kafka.common.test;

import barnabas.kafkatests.Cluster;
import barnabas.kafkatests.Node;
import barnabas.kafkatests.ServerStandIns;

import kafka.raft.KafkaRaftManager;
import kafka.server.BrokerServer;
import kafka.server.ControllerServer;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.controller.Controller;
import org.apache.kafka.metadata.bootstrap.BootstrapMetadata;
import org.apache.kafka.metadata.properties.MetaPropertiesEnsemble;
import org.apache.kafka.metadata.properties.PropertiesUtils;
import org.apache.kafka.metadata.storage.Formatter;
import org.apache.kafka.raft.DynamicVoters;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.Feature;
import org.apache.kafka.server.common.MetadataVersion;

import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;

/**
 * Replaces Kafka's class of this name. Nodes, ids, directories and settings are the same (they come from Kafka's own
 * {@link TestKitNodes}), but each node is a Barnabas process instead of a server in this JVM.
 */
public class KafkaClusterTestKit implements AutoCloseable {

    public static class Builder {
        private final TestKitNodes nodes;
        private final Map<String, Object> configProps = new HashMap<>();
        private final Map<String, Integer> ports = new HashMap<>();
        private boolean standalone;
        private Optional<Map<Integer, Uuid>> initialVoterSet = Optional.empty();
        private boolean deleteOnClose = true;

        public Builder(TestKitNodes nodes) {
            this.nodes = nodes;
        }

        public Builder setConfigProp(String key, Object value) {
            configProps.put(key, value);
            return this;
        }

        public Builder setStandalone(boolean standalone) {
            this.standalone = standalone;
            return this;
        }

        public Builder setInitialVoterSet(Map<Integer, Uuid> initialVoterSet) {
            this.initialVoterSet = Optional.of(initialVoterSet);
            return this;
        }

        public Builder setDeleteOnClose(boolean deleteOnClose) {
            this.deleteOnClose = deleteOnClose;
            return this;
        }

        public KafkaClusterTestKit build() throws Exception {
            Optional<File> jaasFile = Optional.empty();
            if (nodes.brokerListenerProtocol() == SecurityProtocol.SASL_PLAINTEXT) {
                File file = JaasUtils.writeJaasContextsToFile(Set.of(
                    new JaasUtils.JaasSection(JaasUtils.KAFKA_SERVER_CONTEXT_NAME, List.of(plainUsers()))));
                JaasUtils.refreshJavaLoginConfigParam(file);
                jaasFile = Optional.of(file);
            }
            return new KafkaClusterTestKit(this, jaasFile);
        }

        private static JaasModule plainUsers() {
            return JaasModule.plainLoginModule(JaasUtils.KAFKA_PLAIN_ADMIN, JaasUtils.KAFKA_PLAIN_ADMIN_PASSWORD, true, Map.of(
                JaasUtils.KAFKA_PLAIN_USER1, JaasUtils.KAFKA_PLAIN_USER1_PASSWORD,
                JaasUtils.KAFKA_PLAIN_ADMIN, JaasUtils.KAFKA_PLAIN_ADMIN_PASSWORD));
        }

        private int port(int node, String listener) {
            return ports.computeIfAbsent(node + " " + listener.toUpperCase(), key -> Node.freePort());
        }

        /** The settings that Kafka's test kit gives to a node, in the same order of precedence. */
        private Map<String, Object> settings(int id) {
            TestKitNode broker = nodes.brokerNodes().get(id);
            TestKitNode controller = nodes.controllerNodes().get(id);
            String brokerListener = nodes.brokerListenerName().value();
            String controllerListener = nodes.controllerListenerName().value();
            String brokerProtocol = nodes.brokerListenerProtocol().name;
            String controllerProtocol = nodes.controllerListenerProtocol().name;

            Map<String, Object> props = new TreeMap<>(configProps);
            props.put("server.max.startup.time.ms", "600000");
            props.put("process.roles", broker == null ? "controller" : controller == null ? "broker" : "broker,controller");
            props.put("node.id", Integer.toString(id));
            props.put("metadata.log.dir", (controller != null ? controller : broker).metadataDirectory());
            if (controller != null) addSecurity(props, controllerListener, controllerProtocol);
            if (broker != null) {
                props.put("log.dirs", String.join(",", broker.logDataDirectories()));
                addSecurity(props, brokerListener, brokerProtocol);
            } else {
                props.put("log.dirs", controller.metadataDirectory());
            }
            props.putIfAbsent("listener.security.protocol.map",
                brokerListener + ":" + brokerProtocol + "," + controllerListener + ":" + controllerProtocol);
            props.putIfAbsent("listeners", broker == null ? controllerListener + "://localhost:0"
                : controller == null ? brokerListener + "://localhost:0"
                : brokerListener + "://localhost:0," + controllerListener + "://localhost:0");
            if (broker != null) props.putIfAbsent("inter.broker.listener.name", brokerListener);
            props.putIfAbsent("controller.listener.names", controllerListener);
            boolean fixed = !standalone && initialVoterSet.isEmpty();
            props.put(fixed ? "controller.quorum.voters" : "controller.quorum.bootstrap.servers",
                nodes.controllerNodes().keySet().stream()
                    .map(each -> (fixed ? each + "@" : "") + "localhost:" + port(each, controllerListener))
                    .collect(Collectors.joining(",")));
            props.putIfAbsent("log.cleaner.dedupe.buffer.size", "2097152");
            if (broker != null) {
                props.remove("controller.quorum.auto.join.enable");
                props.putAll(broker.propertyOverrides());
            }
            if (controller != null) props.putAll(controller.propertyOverrides());
            props.putIfAbsent("unstable.feature.versions.enable", "true");
            props.putIfAbsent("unstable.api.versions.enable", "true");
            return props;
        }

        /** Replaces port 0 by a free port, because the test needs to know the port of the process. */
        private Map<String, Object> withPorts(int id, Map<String, Object> settings) {
            Map<String, Object> props = new TreeMap<>(settings);
            props.put("listeners", java.util.Arrays.stream(Node.text(settings.get("listeners")).split(","))
                .map(String::trim)
                .map(each -> each.endsWith(":0") ? each.substring(0, each.length() - 1) + port(id, each.split("://")[0]) : each)
                .collect(Collectors.joining(",")));
            return props;
        }

        private void addSecurity(Map<String, Object> props, String listener, String protocol) {
            if (!protocol.equals(SecurityProtocol.SASL_PLAINTEXT.name)) return;
            props.putIfAbsent("sasl.enabled.mechanisms", "PLAIN");
            props.putIfAbsent("sasl.mechanism.inter.broker.protocol", "PLAIN");
            props.putIfAbsent("sasl.mechanism.controller.protocol", "PLAIN");
            props.putIfAbsent("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer");
            props.putIfAbsent("allow.everyone.if.no.acl.found", "false");
            props.putIfAbsent("super.users", "User:" + JaasUtils.KAFKA_PLAIN_ADMIN);
            // Kafka's test kit keeps the users in a JAAS file that all servers of the JVM share; a process gets them as a setting.
            props.putIfAbsent("listener.name." + listener.toLowerCase() + ".plain.sasl.jaas.config",
                plainUsers().toString().replaceAll("\\s+", " ").trim());
        }
    }

    private final TestKitNodes nodes;
    private final boolean standalone;
    private final Optional<Map<Integer, Uuid>> initialVoterSet;
    private final boolean deleteOnClose;
    private final Optional<File> jaasFile;
    private final Builder builder;
    private final Cluster cluster;
    private final MockFaultHandler fatalFaultHandler = new MockFaultHandler("fatalFaultHandler");
    private final MockFaultHandler nonFatalFaultHandler = new MockFaultHandler("nonFatalFaultHandler");
    private final Map<Integer, BrokerServer> brokers;
    private final Map<Integer, ControllerServer> controllers;
    private boolean formatted;
    private boolean closed;

    private KafkaClusterTestKit(Builder builder, Optional<File> jaasFile) throws Exception {
        this.nodes = builder.nodes;
        this.standalone = builder.standalone;
        this.initialVoterSet = builder.initialVoterSet;
        this.deleteOnClose = builder.deleteOnClose;
        this.jaasFile = jaasFile;
        this.builder = builder;
        this.cluster = new Cluster(nodes.brokerListenerName().value(), nodes.controllerListenerName().value(),
            nodes.brokerListenerProtocol() == SecurityProtocol.PLAINTEXT, this::admin);
        Path directory = Files.createDirectories(Path.of(nodes.baseDirectory()));
        Set<Integer> ids = new TreeSet<>(nodes.brokerNodes().keySet());
        ids.addAll(nodes.controllerNodes().keySet());
        for (int id : ids) {
            Map<String, Object> asked = builder.settings(id);
            cluster.nodes.put(id, new Node(id, nodes.brokerNodes().containsKey(id), nodes.controllerNodes().containsKey(id),
                asked, builder.withPorts(id, asked), directory));
        }
        this.brokers = ServerStandIns.lazily(nodes.brokerNodes().keySet(),
            id -> ServerStandIns.broker(cluster, cluster.nodes.get(id), nodes.clusterId()));
        this.controllers = ServerStandIns.lazily(nodes.controllerNodes().keySet(),
            id -> ServerStandIns.controller(cluster, cluster.nodes.get(id), nodes.clusterId()));
    }

    /** Formats the directories with Kafka's own Formatter, as kafka-storage does. */
    public void format() throws Exception {
        formatted = true;
        for (TestKitNode node : nodes.controllerNodes().values()) formatNode(node.initialMetaPropertiesEnsemble());
        for (TestKitNode node : nodes.brokerNodes().values()) {
            if (!nodes.isCombined(node.id())) formatNode(node.initialMetaPropertiesEnsemble());
        }
    }

    private void formatNode(MetaPropertiesEnsemble ensemble) throws Exception {
        int id = ensemble.nodeId().getAsInt();
        Formatter formatter = new Formatter();
        formatter.setNodeId(id);
        formatter.setClusterId(ensemble.clusterId().get());
        formatter.setDirectories(ensemble.logDirProps().keySet());
        if (formatter.directories().isEmpty()) return;
        // The default of Kafka's tests is an unreleased level; use the latest released one.
        MetadataVersion asked = nodes.bootstrapMetadata().metadataVersion();
        formatter.setReleaseVersion(asked == MetadataVersion.latestTesting() ? MetadataVersion.latestProduction() : asked);
        askedFeatures().forEach((name, level) -> {
            if (!name.equals(MetadataVersion.FEATURE_NAME)) formatter.setFeatureLevel(name, level);
        });
        formatter.setUnstableFeatureVersionsEnabled(true);
        formatter.setIgnoreFormatted(false);
        formatter.setControllerListenerName(nodes.controllerListenerName().value());
        formatter.setMetadataLogDirectory(ensemble.metadataLogDir().get());
        if (standalone) {
            if (id == 3000) {
                formatter.setInitialControllers(DynamicVoters.parse(voter(id, nodes.controllerNodes().get(id).metadataDirectoryId())));
            }
            formatter.setHasDynamicQuorum(true);
        } else if (initialVoterSet.isPresent()) {
            formatter.setInitialControllers(DynamicVoters.parse(initialVoterSet.get().entrySet().stream()
                .map(each -> voter(each.getKey(), each.getValue())).collect(Collectors.joining(","))));
            formatter.setHasDynamicQuorum(true);
        }
        formatter.run();
        // Kafka's servers get the directory ids of the test kit as objects; a process reads them from the file.
        for (var each : ensemble.logDirProps().entrySet()) {
            PropertiesUtils.writePropertiesFile(each.getValue().toProperties(),
                new File(each.getKey(), MetaPropertiesEnsemble.META_PROPERTIES_NAME).getAbsolutePath(), true);
        }
    }

    private String voter(int id, Uuid directory) {
        return String.format("%d@localhost:%d:%s", id, builder.port(id, nodes.controllerListenerName().value()), directory);
    }

    public void startup() {
        cluster.start();
        try {
            if (formatted) cluster.setFeatures(askedFeatures());
        } catch (RuntimeException e) {
            cluster.stop();
            throw e;
        }
    }

    /** The features whose level differs from the test kit's default. */
    private Map<String, Short> askedFeatures() {
        BootstrapMetadata asked = nodes.bootstrapMetadata();
        MetadataVersion latest = MetadataVersion.latestTesting();
        Map<String, Short> levels = new TreeMap<>();
        if (asked.metadataVersion() != latest) {
            levels.put(MetadataVersion.FEATURE_NAME, asked.metadataVersion().featureLevel());
        }
        for (Feature feature : Feature.PRODUCTION_FEATURES) {
            if (feature == Feature.KRAFT_VERSION) continue;  // follows from how the quorum is made
            short level = asked.featureLevel(feature.featureName());
            if (level != feature.defaultLevel(asked.metadataVersion())) levels.put(feature.featureName(), level);
        }
        return levels;
    }

    public Cluster cluster() {
        return cluster;
    }

    public void waitForReadyBrokers() throws java.util.concurrent.ExecutionException, InterruptedException {
        cluster.waitForReadyBrokers();
    }

    public Admin admin() {
        return admin(Map.of(), false);
    }

    public Admin admin(Map<String, Object> configs) {
        return admin(configs, false);
    }

    public Admin admin(Map<String, Object> configs, boolean usingBootstrapControllers) {
        Map<String, Object> props = new HashMap<>(configs);
        if (usingBootstrapControllers) {
            props.putIfAbsent("bootstrap.controllers", bootstrapControllers());
            props.remove("bootstrap.servers");
        } else {
            props.putIfAbsent("bootstrap.servers", bootstrapServers());
            props.remove("bootstrap.controllers");
        }
        SecurityProtocol protocol = usingBootstrapControllers ? nodes.controllerListenerProtocol() : nodes.brokerListenerProtocol();
        props.putIfAbsent("security.protocol", protocol.name);
        if (protocol == SecurityProtocol.SASL_PLAINTEXT) {
            props.putIfAbsent("sasl.mechanism", "PLAIN");
            props.putIfAbsent("sasl.jaas.config", String.format(
                "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"%s\" password=\"%s\";",
                JaasUtils.KAFKA_PLAIN_ADMIN, JaasUtils.KAFKA_PLAIN_ADMIN_PASSWORD));
        }
        return Admin.create(props);
    }

    public String bootstrapServers() {
        return cluster.brokers().map(node -> "localhost:" + node.port(cluster.brokerListener)).collect(Collectors.joining(","));
    }

    public String bootstrapControllers() {
        return cluster.controllers().map(node -> "localhost:" + node.port(cluster.controllerListener)).collect(Collectors.joining(","));
    }

    public Map<Integer, BrokerServer> brokers() {
        return brokers;
    }

    public Map<Integer, ControllerServer> controllers() {
        return controllers;
    }

    public Controller waitForActiveController() {
        return ServerStandIns.activeController(cluster);
    }

    public Map<Integer, KafkaRaftManager<ApiMessageAndVersion>> raftManagers() {
        return ServerStandIns.lazily(cluster.nodes.keySet(), id -> ServerStandIns.raftManager(cluster));
    }

    public TestKitNodes nodes() {
        return nodes;
    }

    public MockFaultHandler fatalFaultHandler() {
        return fatalFaultHandler;
    }

    public MockFaultHandler nonFatalFaultHandler() {
        return nonFatalFaultHandler;
    }

    /** Fails if a node ended unexpectedly, as Kafka's test kit does if one of its servers had a fault. */
    @Override
    public void close() throws Exception {
        if (closed) return;
        closed = true;
        Optional<String> ended = cluster.unexpectedEnd();
        cluster.stop();
        if (deleteOnClose && !Boolean.getBoolean("barnabas.keep")) {
            Utils.delete(new File(nodes.baseDirectory()));
            if (jaasFile.isPresent()) Utils.delete(jaasFile.get());
        }
        if (ended.isPresent()) throw new IllegalStateException(ended.get());
    }
}
