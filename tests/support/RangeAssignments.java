// Reads one group per line, lets Kafka's own range assignor divide the partitions, and prints who gets what.
// A line: topic=racks of each partition's replicas, and @member=instance;rack;topics. See test_range_against_kafka.py.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

public class RangeAssignments {
    static Node[] replicas(String racks) {
        List<Node> nodes = new ArrayList<>();
        for (String rack : racks.split("\\+")) nodes.add(new Node(nodes.size(), "h", 1, rack.equals("-") ? null : rack));
        return nodes.toArray(new Node[0]);
    }

    static String answer(String line) {
        Map<String, List<PartitionInfo>> topics = new HashMap<>();
        Map<String, Subscription> members = new HashMap<>();
        for (String word : line.split(" ")) {
            String name = word.substring(0, word.indexOf('=')), rest = word.substring(word.indexOf('=') + 1);
            if (!name.startsWith("@")) {
                List<PartitionInfo> partitions = new ArrayList<>();
                for (String racks : rest.split(",")) {
                    Node[] nodes = replicas(racks);
                    partitions.add(new PartitionInfo(name, partitions.size(), nodes[0], nodes, nodes));
                }
                topics.put(name, partitions);
                continue;
            }
            String[] parts = rest.split(";", -1);
            List<String> wanted = parts[2].isEmpty() ? List.of() : List.of(parts[2].split(","));
            Optional<String> rack = parts[1].isEmpty() ? Optional.empty() : Optional.of(parts[1]);
            Subscription subscription = new Subscription(wanted, null, List.of(), -1, rack);
            if (!parts[0].isEmpty()) subscription.setGroupInstanceId(Optional.of(parts[0]));
            members.put(name.substring(1), subscription);
        }
        topics.keySet().removeIf(topic -> members.values().stream().noneMatch(each -> each.topics().contains(topic)));
        Map<String, List<TopicPartition>> found = new RangeAssignor().assignPartitions(topics, members);
        return new TreeMap<>(found).entrySet().stream()
            .map(each -> each.getKey() + "=" + each.getValue().stream().map(TopicPartition::toString).sorted()
                .collect(Collectors.joining(",")))
            .collect(Collectors.joining(" "));
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) System.out.println(answer(line));
    }
}
