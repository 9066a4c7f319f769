package org.apache.kafka.common.test.junit;

import barnabas.kafkatests.Cluster;
import barnabas.kafkatests.Node;

import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.KafkaClusterTestKit;
import org.apache.kafka.common.test.TestKitNodes;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.metadata.bootstrap.BootstrapMetadata;
import org.apache.kafka.server.common.Feature;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.server.fault.FaultHandlerException;

import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.Extension;
import org.junit.jupiter.api.extension.TestTemplateInvocationContext;

import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;

/** Replaces Kafka's class of this name: gives a @ClusterTest a cluster of Barnabas processes. */
public class RaftClusterInvocationContext implements TestTemplateInvocationContext {
    private final String baseDisplayName;
    private final ClusterConfig clusterConfig;
    private final boolean isCombined;

    public RaftClusterInvocationContext(String baseDisplayName, ClusterConfig clusterConfig, boolean isCombined) {
        this.baseDisplayName = baseDisplayName;
        this.clusterConfig = clusterConfig;
        this.isCombined = isCombined;
    }

    @Override
    public String getDisplayName(int invocationIndex) {
        return String.format("%s [%d] Type=Raft-%s, %s", baseDisplayName, invocationIndex,
            isCombined ? "Combined" : "Isolated", String.join(",", clusterConfig.displayTags()));
    }

    @Override
    public List<Extension> getAdditionalExtensions() {
        Processes processes = new Processes(clusterConfig, isCombined);
        return List.of(
            (BeforeEachCallback) context -> {
                processes.format();
                if (clusterConfig.isAutoStart()) processes.start();
            },
            (AfterTestExecutionCallback) context -> processes.stop(),
            new ClusterInstanceParameterResolver(processes));
    }

    private static final class Processes implements ClusterInstance {
        private final ClusterConfig config;
        private final boolean combined;
        private KafkaClusterTestKit kit;
        private boolean started;
        private boolean stopped;

        Processes(ClusterConfig config, boolean combined) {
            this.config = config;
            this.combined = combined;
        }

        private Cluster cluster() {
            return kit.cluster();
        }

        // ---- properties

        @Override public Type type() { return combined ? Type.CO_KRAFT : Type.KRAFT; }
        @Override public ClusterConfig config() { return config; }
        @Override public ListenerName clientListener() { return config.brokerListenerName(); }
        @Override public ListenerName controllerListenerName() { return config.controllerListenerName(); }
        @Override public String bootstrapServers() { return kit.bootstrapServers(); }
        @Override public String bootstrapControllers() { return kit.bootstrapControllers(); }
        @Override public String clusterId() { return kit.nodes().clusterId(); }
        @Override public Set<Integer> brokerIds() { return new TreeSet<>(kit.nodes().brokerNodes().keySet()); }
        @Override public Set<Integer> controllerIds() { return new TreeSet<>(kit.nodes().controllerNodes().keySet()); }
        @Override public Map<Integer, KafkaBroker> brokers() { return cast(kit.brokers()); }
        @Override public Map<Integer, ControllerServer> controllers() { return kit.controllers(); }

        @SuppressWarnings("unchecked")
        private static Map<Integer, KafkaBroker> cast(Map<Integer, ?> brokers) {
            return (Map<Integer, KafkaBroker>) brokers;
        }

        @Override
        public Map<Integer, KafkaBroker> aliveBrokers() {
            Map<Integer, KafkaBroker> alive = new HashMap<>();
            cluster().runningBrokers().forEach(node -> alive.put(node.id, kit.brokers().get(node.id)));
            return alive;
        }

        @Override
        public List<Integer> brokerBoundPorts() {
            return cluster().brokers().map(node -> node.port(clientListener().value())).toList();
        }

        @Override
        public List<Integer> controllerBoundPorts() {
            return cluster().controllers().map(node -> node.port(controllerListenerName().value())).toList();
        }

        /** Kafka's rule: the settings of the broker name the protocol, and the feature is enabled. */
        @Override
        public Set<GroupProtocol> supportedGroupProtocols() {
            boolean allowed = cluster().brokers()
                .map(node -> node.settings.get("group.coordinator.rebalance.protocols"))
                .allMatch(value -> value == null || List.of(Node.text(value).split(" *, *")).contains("consumer"));
            try (Admin admin = admin()) {
                var feature = admin.describeFeatures().featureMetadata().get().finalizedFeatures().get("group.version");
                allowed &= feature != null && feature.maxVersionLevel() >= 1;
            } catch (ExecutionException | InterruptedException e) {
                throw new RuntimeException(e);
            }
            return allowed ? Set.of(GroupProtocol.CLASSIC, GroupProtocol.CONSUMER) : Set.of(GroupProtocol.CLASSIC);
        }

        @Override
        public Optional<FaultHandlerException> firstFatalException() {
            return cluster().unexpectedEnd().map(said -> new FaultHandlerException(said));
        }

        @Override public Optional<FaultHandlerException> firstNonFatalException() { return Optional.empty(); }

        // ---- lifecycle

        /** Computes the feature levels as Kafka's class does. */
        void format() throws Exception {
            if (kit != null) return;
            Map<String, Short> levels = new TreeMap<>();
            Feature.PRODUCTION_FEATURES.forEach(feature ->
                levels.put(feature.featureName(), feature.defaultLevel(config.metadataVersion())));
            config.features().forEach((feature, level) -> levels.put(feature.featureName(), level));
            levels.put(MetadataVersion.FEATURE_NAME, config.metadataVersion().featureLevel());
            for (Feature feature : Feature.PRODUCTION_FEATURES) {
                Feature.validateVersion(feature.fromFeatureLevel(levels.get(feature.featureName()), true), levels);
            }
            TestKitNodes nodes = new TestKitNodes.Builder()
                .setBootstrapMetadata(BootstrapMetadata.fromVersions(config.metadataVersion(), levels, "testkit"))
                .setCombined(combined)
                .setNumBrokerNodes(config.numBrokers())
                .setNumDisksPerBroker(config.numDisksPerBroker())
                .setPerServerProperties(config.perServerOverrideProperties())
                .setNumControllerNodes(config.numControllers())
                .setBrokerListenerName(config.brokerListenerName())
                .setBrokerSecurityProtocol(config.brokerSecurityProtocol())
                .setControllerListenerName(config.controllerListenerName())
                .setControllerSecurityProtocol(config.controllerSecurityProtocol())
                .build();
            KafkaClusterTestKit.Builder builder = new KafkaClusterTestKit.Builder(nodes);
            config.serverProperties().forEach(builder::setConfigProp);
            builder.setStandalone(config.standalone());
            kit = builder.build();
            kit.format();
        }

        @Override
        public void start() {
            try {
                format();
            } catch (Exception e) {
                throw new RuntimeException("Failed to start Raft server", e);
            }
            if (started) return;
            started = true;
            kit.startup();
        }

        @Override
        public void stop() {
            if (stopped) return;
            stopped = true;
            if (kit == null) return;
            try {
                kit.close();
            } catch (RuntimeException e) {
                throw e;
            } catch (Exception e) {
                throw new RuntimeException(e);
            }
        }

        @Override public boolean started() { return started; }
        @Override public boolean stopped() { return stopped; }
        @Override public void shutdownBroker(int brokerId) { cluster().shutdownBroker(brokerId); }
        @Override public void startBroker(int brokerId) { cluster().startBroker(brokerId); }

        // ---- waiting

        @Override public void waitForReadyBrokers() throws InterruptedException { cluster().waitForReadyBrokers(); }
        @Override public void ensureConsistentMetadata() throws InterruptedException { cluster().ensureConsistentMetadata(); }
        @Override public void waitTopicDeletion(String topic) throws InterruptedException { cluster().waitTopicDeletion(topic); }

        @Override
        public void ensureConsistentMetadata(Collection<KafkaBroker> brokers, Collection<ControllerServer> controllers)
                throws InterruptedException {
            cluster().ensureConsistentMetadata();
        }

        @Override
        public void waitTopicCreation(String topic, int partitions) throws InterruptedException {
            cluster().waitTopicCreation(topic, partitions);
        }

        @Override
        public void waitAcls(AclBindingFilter filter, Collection<AccessControlEntry> entries) throws InterruptedException {
            cluster().waitAcls(filter, entries);
        }
    }
}
