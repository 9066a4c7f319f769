package barnabas.kafkatests;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.QuorumInfo;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.message.MetadataResponseData;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.DescribeQuorumRequest;
import org.apache.kafka.common.requests.DescribeQuorumResponse;
import org.apache.kafka.common.requests.MetadataRequest;
import org.apache.kafka.common.requests.MetadataResponse;
import org.apache.kafka.server.IntegrationTestUtils;

import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.function.Supplier;
import java.util.stream.Stream;

/** The nodes of one test, and what can be observed of them: through an Admin client, and by single requests to one broker. */
public final class Cluster {
    public final SortedMap<Integer, Node> nodes = new TreeMap<>();
    public final String brokerListener;
    public final String controllerListener;
    private final boolean plaintext;
    private final Supplier<Admin> admins;

    public Cluster(String brokerListener, String controllerListener, boolean plaintext, Supplier<Admin> admins) {
        this.brokerListener = brokerListener;
        this.controllerListener = controllerListener;
        this.plaintext = plaintext;
        this.admins = admins;
    }

    public Stream<Node> brokers() {
        return nodes.values().stream().filter(node -> node.isBroker);
    }

    public Stream<Node> controllers() {
        return nodes.values().stream().filter(node -> node.isController);
    }

    public List<Node> runningBrokers() {
        return brokers().filter(Node::isRunning).toList();
    }

    public void start() {
        try {
            controllers().forEach(Node::start);
            brokers().forEach(Node::start);
            nodes.values().forEach(Node::awaitReady);
        } catch (RuntimeException e) {
            stop();
            throw e;
        }
    }

    /** Stops all brokers at once, then all controllers. */
    public void stop() {
        brokers().forEach(Node::askToStop);
        brokers().forEach(Node::stop);
        controllers().forEach(Node::askToStop);
        controllers().forEach(Node::stop);
    }

    public Optional<String> unexpectedEnd() {
        return nodes.values().stream().map(Node::unexpectedEnd).filter(said -> said != null).findFirst();
    }

    /** Stops a broker. A combined node is one process, so its broker role cannot be stopped alone as in Kafka's test kit. */
    public void shutdownBroker(int id) {
        Node node = broker(id);
        if (node.isCombined()) throw ServerStandIns.looksInside("stops the broker half of a combined node");
        node.stop();
    }

    public void startBroker(int id) {
        Node node = broker(id);
        node.start();
        node.awaitReady();
    }

    public Node broker(int id) {
        return brokers().filter(node -> node.id == id).findFirst()
            .orElseThrow(() -> new IllegalArgumentException("Unknown brokerId " + id));
    }

    // ---- what a broker knows

    /** The metadata that this broker answers. Needs a listener without authentication. */
    MetadataResponseData metadata(Node broker) {
        if (!plaintext) throw ServerStandIns.looksInside("the metadata of one broker behind SASL");
        MetadataResponse response = ask(broker, MetadataRequest.Builder.allTopics().build());
        return response.data();
    }

    private <T extends AbstractResponse> T ask(Node broker, AbstractRequest request) {
        try {
            return IntegrationTestUtils.connectAndReceive(request, broker.port(brokerListener));
        } catch (java.io.IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
    }

    Optional<MetadataResponseData.MetadataResponseTopic> topic(Node broker, String name) {
        return Optional.ofNullable(metadata(broker).topics().find(name));
    }

    /** The number of partitions of a topic, as this broker knows it. */
    Optional<Integer> partitions(Node broker, String name) {
        return topic(broker, name).map(topic -> topic.partitions().size());
    }

    // ---- waiting

    public void waitForReadyBrokers() throws InterruptedException {
        waitUntil(() -> {
            Set<Integer> ids = new HashSet<>();
            if (!plaintext) return true;
            runningBrokers().forEach(node -> ids.add(node.id));
            for (Node node : runningBrokers()) {
                Set<Integer> known = new HashSet<>();
                metadata(node).brokers().forEach(each -> known.add(each.nodeId()));
                if (!known.containsAll(ids)) return false;
            }
            return true;
        }, "each broker knows of all brokers");
    }

    public void waitTopicCreation(String topic, int partitions) throws InterruptedException {
        if (partitions <= 0) throw new IllegalArgumentException("Partition count must be > 0, but was " + partitions);
        waitUntil(() -> {
            if (plaintext) {
                return runningBrokers().stream().allMatch(node -> partitions(node, topic).filter(n -> n == partitions).isPresent());
            }
            try (Admin admin = admins.get()) {
                return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size() == partitions;
            }
        }, topic + " metadata not propagated after 60000 ms");
        ensureConsistentMetadata();
    }

    public void waitTopicDeletion(String topic) throws InterruptedException {
        waitUntil(() -> {
            if (plaintext) return runningBrokers().stream().allMatch(node -> partitions(node, topic).isEmpty());
            try (Admin admin = admins.get()) {
                return !admin.listTopics().names().get().contains(topic);
            }
        }, topic + " metadata not propagated after 60000 ms");
        ensureConsistentMetadata();
    }

    /** Waits until every running node has the metadata log up to the end that its leader had at the time of the call. */
    public void ensureConsistentMetadata() throws InterruptedException {
        long[] end = {-1};
        waitUntil(() -> {
            Quorum now = quorum();
            if (end[0] < 0) end[0] = now.end();
            return nodes.values().stream().filter(Node::isRunning).allMatch(node -> now.ends.getOrDefault(node.id, -1L) >= end[0]);
        }, "Timeout waiting for controller metadata propagating to brokers");
    }

    /** The leader of the metadata quorum, and the log end offset of each node. */
    record Quorum(int leader, int epoch, Map<Integer, Long> ends) {
        long end() {
            return ends.getOrDefault(leader, 0L);
        }
    }

    /** Asks a broker by its listener where possible: an Admin client would use the advertised address. */
    Quorum quorum() {
        Map<Integer, Long> ends = new HashMap<>();
        if (plaintext && !runningBrokers().isEmpty()) {
            DescribeQuorumResponse response = ask(runningBrokers().get(0), new DescribeQuorumRequest.Builder(
                DescribeQuorumRequest.singletonRequest(new TopicPartition("__cluster_metadata", 0))).build());
            if (response.data().errorCode() != 0) throw Errors.forCode(response.data().errorCode()).exception();
            var partition = response.data().topics().get(0).partitions().get(0);
            if (partition.errorCode() != 0) throw Errors.forCode(partition.errorCode()).exception();
            Stream.concat(partition.currentVoters().stream(), partition.observers().stream())
                .forEach(each -> ends.merge(each.replicaId(), each.logEndOffset(), Math::max));
            return new Quorum(partition.leaderId(), partition.leaderEpoch(), ends);
        }
        try (Admin admin = admins.get()) {
            QuorumInfo info = admin.describeMetadataQuorum().quorumInfo().get();
            Stream.concat(info.voters().stream(), info.observers().stream())
                .forEach(each -> ends.merge(each.replicaId(), each.logEndOffset(), Math::max));
            return new Quorum(info.leaderId(), (int) info.leaderEpoch(), ends);
        } catch (ExecutionException e) {
            throw new RuntimeException("cannot describe the quorum: " + e.getCause(), e.getCause());
        } catch (InterruptedException e) {
            throw new org.apache.kafka.common.errors.InterruptException(e);
        }
    }

    public void waitAcls(AclBindingFilter filter, Collection<AccessControlEntry> entries) throws InterruptedException {
        waitUntil(() -> {
            try (Admin admin = admins.get()) {
                Set<AccessControlEntry> found = new HashSet<>();
                admin.describeAcls(filter).values().get().forEach(binding -> found.add(binding.entry()));
                return found.equals(new HashSet<>(entries));
            }
        }, "expected acls: " + entries);
    }

    /** Sets the feature levels that Kafka's test kit writes into the formatted directories. */
    public void setFeatures(Map<String, Short> levels) {
        if (levels.isEmpty()) return;
        try (Admin admin = admins.get()) {
            var known = admin.describeFeatures().featureMetadata().get().finalizedFeatures();
            Map<String, FeatureUpdate> updates = new HashMap<>();
            levels.forEach((name, level) -> {
                short now = known.containsKey(name) ? known.get(name).maxVersionLevel() : 0;
                if (now != level) {
                    var type = level > now ? FeatureUpdate.UpgradeType.UPGRADE : FeatureUpdate.UpgradeType.UNSAFE_DOWNGRADE;
                    updates.put(name, new FeatureUpdate(level, type));
                }
            });
            if (!updates.isEmpty()) admin.updateFeatures(updates, new UpdateFeaturesOptions()).all().get();
        } catch (ExecutionException e) {
            throw new Node.DidNotStart("Barnabas does not take the features " + levels + ": " + e.getCause());
        } catch (InterruptedException e) {
            throw new org.apache.kafka.common.errors.InterruptException(e);
        }
    }

    /** Waits as Kafka's test kit does: 60 s at most, and an exception means that the condition does not hold yet. */
    static void waitUntil(Callable<Boolean> condition, String what) throws InterruptedException {
        long end = System.currentTimeMillis() + 60_000;
        Exception last = null;
        while (System.currentTimeMillis() < end) {
            try {
                if (condition.call()) return;
                last = null;
            } catch (InterruptedException | org.apache.kafka.common.errors.InterruptException e) {
                throw new InterruptedException();
            } catch (Exception e) {
                last = e;
            }
            Thread.sleep(50);
        }
        throw new AssertionError("Condition not met within timeout 60000. " + what, last);
    }
}
