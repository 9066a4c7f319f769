"""What tests of our own client share: a cluster of one broker that coordinates, and where its brokers are."""

from __future__ import annotations

from cluster import Cluster

ALONE = {
    "offsets_topic_replication_factor": "1",
    "offsets_topic_num_partitions": "1",
    "transaction_state_log_replication_factor": "1",
    "transaction_state_log_num_partitions": "1",
}


def servers(cluster: Cluster) -> list[str]:
    """For `bootstrap_servers`."""
    listeners = (each for node in cluster.nodes.values() for each in node.settings["listeners"].split(","))
    return [each.removeprefix("PLAINTEXT://") for each in listeners if each.startswith("PLAINTEXT://")]
