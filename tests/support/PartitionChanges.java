// Reads one change of a partition per line, lets Kafka's own rules work it out, and prints the record, or - for none.
// A line: before's fields, then what is wanted, as name=value with spaces between. See test_partition_change_against_kafka.py.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.controller.PartitionChangeBuilder;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.server.common.MetadataVersion;

public class PartitionChanges {
    static List<Integer> list(String text) {
        List<Integer> found = new ArrayList<>();
        for (String each : text.split(",")) if (!each.isEmpty()) found.add(Integer.parseInt(each));
        return found;
    }

    static int[] array(String text) {
        return list(text).stream().mapToInt(Integer::intValue).toArray();
    }

    static String shown(List<Integer> values) {
        return values == null ? "null" : values.toString().replace(" ", "");
    }

    static String directories(List<Uuid> values) {
        if (values == null) return "null";
        return shown(values.stream().map(each -> (int) each.getLeastSignificantBits()).toList());
    }

    static String answer(Map<String, String> line) {
        List<Integer> replicas = list(line.get("replicas"));
        Uuid[] directories = replicas.stream().map(each -> new Uuid(1, each)).toArray(Uuid[]::new);
        PartitionRegistration before = new PartitionRegistration.Builder()
            .setReplicas(array(line.get("replicas"))).setIsr(array(line.get("isr"))).setDirectories(directories)
            .setRemovingReplicas(array(line.get("removing"))).setAddingReplicas(array(line.get("adding")))
            .setElr(array(line.get("elr"))).setLastKnownElr(array(line.get("known")))
            .setLeader(Integer.parseInt(line.get("leader"))).setLeaderEpoch(7).setPartitionEpoch(9)
            .setLeaderRecoveryState(LeaderRecoveryState.of(Byte.parseByte(line.get("recovery")))).build();
        List<Integer> alive = list(line.get("alive"));
        PartitionChangeBuilder builder = new PartitionChangeBuilder(before, Uuid.ONE_UUID, 3, alive::contains,
            MetadataVersion.latestProduction(), Integer.parseInt(line.get("min")), line.get("eligible").equals("1"));
        builder.setElection(PartitionChangeBuilder.Election.valueOf(line.get("election")))
            .setTargetIsr(list(line.get("to_isr"))).setTargetReplicas(list(line.get("to_replicas")))
            .setTargetRemoving(list(line.get("to_removing"))).setTargetAdding(list(line.get("to_adding")))
            .setUncleanShutdownReplicas(list(line.get("unclean")))
            .setTargetLeaderRecoveryState(LeaderRecoveryState.of(Byte.parseByte(line.get("to_recovery"))))
            .setDefaultDirProvider(each -> new Uuid(1, 100 + each));
        return builder.build().map(built -> {
            PartitionChangeRecord record = (PartitionChangeRecord) built.message();
            return "isr=" + shown(record.isr()) + " leader=" + record.leader() + " replicas=" + shown(record.replicas())
                + " removing=" + shown(record.removingReplicas()) + " adding=" + shown(record.addingReplicas())
                + " recovery=" + record.leaderRecoveryState() + " directories=" + directories(record.directories())
                + " elr=" + shown(record.eligibleLeaderReplicas()) + " known=" + shown(record.lastKnownElr());
        }).orElse("-");
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String text = input.readLine(); text != null; text = input.readLine()) {
            Map<String, String> line = new HashMap<>();
            for (String field : text.split(" ")) line.put(field.substring(0, field.indexOf('=')), field.substring(field.indexOf('=') + 1));
            System.out.println(answer(line));
        }
    }
}
