package barnabas.kafkatests;

import kafka.cluster.Partition;
import kafka.log.LogManager;
import kafka.network.SocketServer;
import kafka.raft.KafkaRaftManager;
import kafka.server.BrokerServer;
import kafka.server.ControllerServer;
import kafka.server.KafkaConfig;
import kafka.server.ReplicaManager;
import kafka.server.SharedServer;

import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.controller.Controller;
import org.apache.kafka.controller.QuorumController;
import org.apache.kafka.coordinator.group.GroupCoordinator;
import org.apache.kafka.image.loader.MetadataLoader;
import org.apache.kafka.metadata.BrokerState;
import org.apache.kafka.metadata.LeaderAndIsr;
import org.apache.kafka.metadata.KRaftMetadataCache;
import org.apache.kafka.raft.KafkaRaftClient;
import org.apache.kafka.raft.LeaderAndEpoch;
import org.apache.kafka.raft.RaftLog;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.storage.internals.log.UnifiedLog;

import org.mockito.Mockito;
import org.mockito.stubbing.Answer;

import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

import java.io.File;
import java.util.AbstractMap;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;
import java.util.stream.Stream;

/**
 * Stand-ins for the server objects that the test kit hands to Kafka's tests. They answer what can be observed of a process
 * from outside: its settings, ports and metadata, and whether it runs. They can start and stop it. Any other call aborts
 * the test with {@link LooksInside}.
 */
public final class ServerStandIns {
    private ServerStandIns() { }

    public static LooksInside looksInside(String what) {
        return new LooksInside("looks inside the JVM: " + what);
    }

    /** An Error, because Kafka's helpers that wait for a condition retry after an Exception. The runner reports "aborted". */
    public static final class LooksInside extends Error {
        LooksInside(String message) {
            super(message);
        }
    }

    /** The ids are known at once; each object is made at its first use. */
    public static <T> Map<Integer, T> lazily(Set<Integer> ids, Function<Integer, T> make) {
        Map<Integer, T> made = new HashMap<>();
        return new AbstractMap<>() {
            @Override public int size() { return ids.size(); }
            @Override public Set<Integer> keySet() { return new TreeSet<>(ids); }
            @Override public boolean containsKey(Object id) { return ids.contains(id); }
            @Override public T get(Object id) { return ids.contains(id) ? made.computeIfAbsent((Integer) id, make) : null; }
            @Override public Set<Entry<Integer, T>> entrySet() {
                Map<Integer, T> all = new TreeMap<>();
                ids.forEach(id -> all.put(id, get(id)));
                return all.entrySet();
            }
        };
    }

    public static BrokerServer broker(Cluster cluster, barnabas.kafkatests.Node node, String clusterId) {
        KafkaConfig[] config = new KafkaConfig[1];
        return stub(BrokerServer.class, Map.of(
            "config", args -> config[0] == null ? config[0] = config(node) : config[0],
            "clusterId", args -> clusterId,
            "boundPort", args -> node.port(((ListenerName) args[0]).value()),
            "socketServer", args -> socketServer(node),
            "startup", args -> { cluster.startBroker(node.id); return null; },
            "shutdown", args -> { cluster.shutdownBroker(node.id); return null; },
            "awaitShutdown", args -> null,
            "isShutdown", args -> !node.isRunning(),
            "brokerState", args -> node.isRunning() ? BrokerState.RUNNING
                : node.wasStarted() ? BrokerState.SHUTTING_DOWN : BrokerState.NOT_RUNNING,  // as a stopped server of Kafka does
            "metadataCache", args -> metadataCache(cluster, node)
        ), Map.of(
            "logManager", args -> logManager(node),
            "replicaManager", args -> replicaManager(cluster, node),
            "raftManager", args -> raftManager(cluster),
            "sharedServer", args -> sharedServer(cluster),
            "groupCoordinator", args -> groupCoordinator(config(node))
        ));
    }

    public static ControllerServer controller(Cluster cluster, barnabas.kafkatests.Node node, String clusterId) {
        return stub(ControllerServer.class, Map.of(
            "config", args -> config(node),
            "clusterId", args -> clusterId,
            "socketServer", args -> socketServer(node),
            "raftManager", args -> raftManager(cluster),
            "sharedServer", args -> sharedServer(cluster),
            "controller", args -> controller(cluster, node.id),
            "startup", args -> { half(node); node.start(); node.awaitReady(); return null; },
            "shutdown", args -> { half(node); node.stop(); return null; },
            "awaitShutdown", args -> null
        ), Map.of());
    }

    private static void half(barnabas.kafkatests.Node node) {
        if (node.isCombined()) throw looksInside("stops or starts the controller half of a combined node");
    }

    private static KafkaConfig config(barnabas.kafkatests.Node node) {
        return new KafkaConfig(new HashMap<>(node.asked), false);
    }

    private static SocketServer socketServer(barnabas.kafkatests.Node node) {
        return stub(SocketServer.class, Map.of("boundPort", args -> node.port(((ListenerName) args[0]).value())), Map.of());
    }

    private static KRaftMetadataCache metadataCache(Cluster cluster, barnabas.kafkatests.Node node) {
        return stub(KRaftMetadataCache.class, Map.of(
            "numPartitions", args -> cluster.partitions(node, (String) args[0]),
            "contains", args -> {
                if (!(args[0] instanceof String name)) throw looksInside("MetadataCache.contains(" + args[0] + ")");
                return cluster.topic(node, name).isPresent();
            },
            "getLeaderAndIsr", args -> leaderAndIsr(cluster, node, (String) args[0], (Integer) args[1]),
            "hasAliveBroker", args -> nodes(cluster, node).stream().anyMatch(each -> each.id() == (Integer) args[0]),
            "getAliveBrokerNodes", args -> nodes(cluster, node),
            "getTopicId", args -> cluster.topic(node, (String) args[0]).map(each -> each.topicId())
                .orElse(Uuid.ZERO_UUID)
        ), Map.of());
    }

    private static Optional<LeaderAndIsr> leaderAndIsr(Cluster cluster, barnabas.kafkatests.Node node, String name, int number) {
        return cluster.topic(node, name).flatMap(topic -> topic.partitions().stream()
            .filter(partition -> partition.partitionIndex() == number)
            .map(partition -> new LeaderAndIsr(partition.leaderId(), partition.leaderEpoch(), partition.isrNodes(),
                org.apache.kafka.metadata.LeaderRecoveryState.RECOVERED, 0))
            .findFirst());
    }

    private static List<Node> nodes(Cluster cluster, barnabas.kafkatests.Node node) {
        List<Node> found = new ArrayList<>();
        cluster.metadata(node).brokers().forEach(each -> found.add(new Node(each.nodeId(), each.host(), each.port(), each.rack())));
        return found;
    }

    /** A log exists while its directory does. Its contents are not visible from outside. */
    private static LogManager logManager(barnabas.kafkatests.Node node) {
        return stub(LogManager.class, Map.of(
            "getLog", args -> log(node, (TopicPartition) args[0], args.length > 1 && (Boolean) args[1]),
            "getLog$default$2", args -> false,
            "liveLogDirs", args -> CollectionConverters.asScala(directories(node)).toSeq()
        ), Map.of());
    }

    private static Option<UnifiedLog> log(barnabas.kafkatests.Node node, TopicPartition partition, boolean future) {
        return directories(node).stream()
            .flatMap(each -> Stream.of(Objects.requireNonNullElse(each.listFiles(File::isDirectory), new File[0])))
            .filter(each -> future ? each.getName().startsWith(partition + ".") && each.getName().endsWith("-future")
                : each.getName().equals(partition.toString()))
            .findFirst()
            .map(each -> Option.apply(stub(UnifiedLog.class, Map.of("dir", args -> each), Map.of())))
            .orElse(Option.empty());
    }

    private static List<File> directories(barnabas.kafkatests.Node node) {
        return Stream.of(barnabas.kafkatests.Node.text(node.settings.get("log.dirs")).split(",")).map(File::new).toList();
    }

    private static ReplicaManager replicaManager(Cluster cluster, barnabas.kafkatests.Node node) {
        return stub(ReplicaManager.class, Map.of(
            "metadataCache", args -> metadataCache(cluster, node),
            "logManager", args -> logManager(node),
            "localLog", args -> log(node, (TopicPartition) args[0], false),
            "localBrokerId", args -> node.id,
            "onlinePartition", args -> {
                TopicPartition partition = (TopicPartition) args[0];
                Option<UnifiedLog> log = log(node, partition, false);
                if (log.isEmpty()) return Option.empty();
                boolean leads = leaderAndIsr(cluster, node, partition.topic(), partition.partition())
                    .filter(state -> state.leader() == node.id).isPresent();
                return Option.apply(stub(Partition.class, Map.of(
                    "leaderLogIfLocal", none -> leads ? log : Option.empty(),
                    "leaderIdIfLocal", none -> leads ? Option.apply(node.id) : Option.empty()
                ), Map.of()));
            }
        ), Map.of());
    }

    public static Controller activeController(Cluster cluster) {
        return controller(cluster, cluster.quorum().leader());
    }

    private static Controller controller(Cluster cluster, int id) {
        return stub(QuorumController.class, Map.of(
            "nodeId", args -> id,
            "findAllTopicIds", args -> {
                Map<String, Uuid> ids = new HashMap<>();
                cluster.metadata(cluster.runningBrokers().get(0)).topics().forEach(topic -> ids.put(topic.name(), topic.topicId()));
                return CompletableFuture.completedFuture(ids);
            },
            "isActive", args -> cluster.quorum().leader() == id,
            "waitForReadyBrokers", args -> {
                cluster.waitForReadyBrokers();
                return CompletableFuture.completedFuture(null);
            }
        ), Map.of());
    }

    /** Tests use it to wait until a broker has the controller's metadata, so the call itself waits for that. */
    private static SharedServer sharedServer(Cluster cluster) {
        MetadataLoader loader = stub(MetadataLoader.class, Map.of("lastAppliedOffset", args -> {
            try {
                cluster.ensureConsistentMetadata();
            } catch (InterruptedException e) {
                throw new org.apache.kafka.common.errors.InterruptException(e);
            }
            return cluster.quorum().end();
        }), Map.of());
        return stub(SharedServer.class, Map.of("loader", args -> loader, "raftManager", args -> raftManager(cluster)), Map.of());
    }

    @SuppressWarnings({"rawtypes", "unchecked"})
    public static KafkaRaftManager<ApiMessageAndVersion> raftManager(Cluster cluster) {
        KafkaRaftClient client = stub(KafkaRaftClient.class, Map.of("leaderAndEpoch", args -> {
            Cluster.Quorum quorum = cluster.quorum();
            return new LeaderAndEpoch(OptionalInt.of(quorum.leader()), quorum.epoch());
        }), Map.of());
        RaftLog log = stub(RaftLog.class, Map.of("endOffset", args ->
            new org.apache.kafka.raft.LogOffsetMetadata(cluster.quorum().end())), Map.of());
        return stub(KafkaRaftManager.class, Map.of("raftLog", args -> log, "client", args -> client), Map.of());
    }

    private static GroupCoordinator groupCoordinator(KafkaConfig config) {
        return stub(GroupCoordinator.class, Map.of("groupMetadataTopicConfigs", args -> {
            Properties properties = new Properties();
            properties.put("cleanup.policy", "compact");
            properties.put("compression.type", "producer");
            properties.put("segment.bytes", String.valueOf(config.getInt("offsets.topic.segment.bytes")));
            return properties;
        }), Map.of());
    }

    @FunctionalInterface
    private interface Reply {
        Object to(Object[] arguments) throws Throwable;
    }

    private static <T> T stub(Class<T> type, Map<String, Reply> replies, Map<String, Reply> more) {
        Map<String, Reply> all = new LinkedHashMap<>(replies);
        all.putAll(more);
        Answer<Object> answer = call -> {
            String name = call.getMethod().getName();
            if (name.equals("toString")) return type.getSimpleName() + " of a Barnabas process";
            if (name.equals("hashCode")) return System.identityHashCode(call.getMock());
            if (name.equals("equals")) return call.getMock() == call.getArgument(0);
            Reply reply = all.get(name);
            if (reply == null) throw looksInside(type.getSimpleName() + "." + name + "()");
            return reply.to(call.getArguments());
        };
        return Mockito.mock(type, Mockito.withSettings().defaultAnswer(answer).stubOnly());
    }
}
