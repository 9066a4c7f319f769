"""Settings of replication between brokers: how a follower fetches, and how long it may stay behind.

`BrokerConfig` has them too.
"""

from barnabas.config.setting import Update, boolean, integer, long, string
from barnabas.config.transactions import TransactionConfig
from barnabas.config.validation import LONG_MAX, at_least, one_of

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class ReplicationConfig(TransactionConfig):
    replica_lag_time_max_ms: int = long(
        "replica.lag.time.max.ms",
        30_000,
        help="How long a replica may go without catching up before it is no longer in sync.",
    )
    replica_fetch_wait_max_ms: int = integer(
        "replica.fetch.wait.max.ms", 500, help="How long a leader may hold a follower's fetch that finds nothing."
    )
    replica_fetch_min_bytes: int = integer(
        "replica.fetch.min.bytes", 1, help="What a follower's fetch waits for, within replica.fetch.wait.max.ms."
    )
    replica_fetch_max_bytes: int = integer(
        "replica.fetch.max.bytes",
        1_048_576,
        at_least(0),
        help="How much a follower fetches of one partition at once; a larger batch is fetched whole.",
    )
    replica_fetch_response_max_bytes: int = integer(
        "replica.fetch.response.max.bytes",
        10_485_760,
        at_least(0),
        help="How much a follower fetches at once; a larger batch is fetched whole.",
    )
    replica_fetch_backoff_ms: int = integer(
        "replica.fetch.backoff.ms", 1000, at_least(0), help="How long a follower rests a partition that failed."
    )
    replica_socket_timeout_ms: int = integer(
        "replica.socket.timeout.ms", 30_000, help="How long a follower waits for its leader's answer."
    )
    replica_selector_class: str | None = string(
        "replica.selector.class",
        None,
        one_of(RACK_AWARE),
        help="How a consumer is sent to a replica to read from: in its own rack; without it, always to the leader.",
    )

    # What a reassignment may cost (set at run time, by kafka-reassign-partitions --throttle)
    leader_replication_throttled_rate: int = long(
        "leader.replication.throttled.rate",
        LONG_MAX,
        at_least(1),
        update=Update.CLUSTER_WIDE,
        internal=True,
        help="Bytes a second to replicas in leader.replication.throttled.replicas that are not in sync.",
    )
    follower_replication_throttled_rate: int = long(
        "follower.replication.throttled.rate",
        LONG_MAX,
        at_least(1),
        update=Update.CLUSTER_WIDE,
        internal=True,
        help="Bytes a second for replicas in follower.replication.throttled.replicas that are not in sync.",
    )

    # Leaders
    auto_leader_rebalance_enable: bool = boolean(
        "auto.leader.rebalance.enable", True, help="Whether preferred leaders lead again by themselves."
    )
    leader_imbalance_check_interval_seconds: int = long(
        "leader.imbalance.check.interval.seconds",
        300,
        at_least(1),
        help="How often the controller looks for partitions that others than their preferred leaders lead.",
    )
    unclean_leader_election_interval_ms: int = long(
        "unclean.leader.election.interval.ms",
        300_000,
        at_least(1),
        internal=True,
        help="How often the controller looks for partitions that nobody leads and that may be led uncleanly.",
    )
