"""The settings of the group coordinator, by Kafka's names. `BrokerConfig` has them too."""

from barnabas.config.consumer_groups import ConsumerGroupConfig
from barnabas.config.setting import integer, long, short
from barnabas.config.validation import INT_MAX, at_least, between


class CoordinatorConfig(ConsumerGroupConfig):
    # Groups of the classic protocol
    group_min_session_timeout_ms: int = integer(
        "group.min.session.timeout.ms", 6_000, help="Shortest session timeout that a member may ask for."
    )
    group_max_session_timeout_ms: int = integer(
        "group.max.session.timeout.ms", 1_800_000, help="Longest session timeout that a member may ask for."
    )
    group_initial_rebalance_delay_ms: int = integer(
        "group.initial.rebalance.delay.ms",
        3_000,
        help="How long a group that was empty waits for more members before it begins.",
    )
    group_max_size: int = integer("group.max.size", INT_MAX, at_least(1), help="Most members of one group.")

    # Committed offsets
    offset_metadata_max_bytes: int = integer(
        "offset.metadata.max.bytes", 4_096, help="Longest note that may be committed with an offset."
    )
    offsets_commit_timeout_ms: int = integer(
        "offsets.commit.timeout.ms",
        5_000,
        at_least(1),
        help="How long a request waits until its records are replicated.",
    )
    offsets_retention_minutes: int = integer(
        "offsets.retention.minutes",
        10_080,
        at_least(1),
        help="Age at which offsets are forgotten that no member of their group is subscribed to.",
    )
    offsets_retention_check_interval_ms: int = long(
        "offsets.retention.check.interval.ms", 600_000, at_least(1), help="How often old offsets are looked for."
    )

    # Their topic
    offsets_topic_num_partitions: int = integer(
        "offsets.topic.num.partitions", 50, at_least(1), help="Partitions of __consumer_offsets when it is made."
    )
    offsets_topic_replication_factor: int = short(
        "offsets.topic.replication.factor", 3, at_least(1), help="Replicas of __consumer_offsets when it is made."
    )
    offsets_topic_segment_bytes: int = integer(
        "offsets.topic.segment.bytes",
        100 << 20,
        at_least(1),
        help="Segment size of __consumer_offsets when it is made.",
    )
    offsets_topic_compression_codec: int = integer(
        "offsets.topic.compression.codec",
        0,
        between(0, 4),
        help="How records of __consumer_offsets are packed: 0 not at all, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
    )
