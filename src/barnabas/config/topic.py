"""The settings of a topic, as Kafka 4.3 has them, and `record.validation`, which Kafka has not: it checks all records.

A topic setting that is not set takes the value of its synonym on the broker. Settings of tiered storage are known and
shown, as in a Kafka without tiered storage; only `remote.storage.enable=true` is refused.
"""

from collections.abc import Mapping
from typing import Any, Self

from barnabas.config.broker import BrokerConfig
from barnabas.config.setting import DISTINCT, Config, Setting, Synonym, boolean, double, integer, long, names, string
from barnabas.config.validation import (
    LONG_MAX,
    ConfigError,
    at_least,
    between,
    between_or,
    one_of,
    some_of,
    throttled_replicas,
)

HOUR_MS = 3_600_000
MINUTE_MS = 60_000


class TopicConfig(Config):
    """Built from what was set for the topic, over what its broker has. Immutable."""

    cleanup_policy: tuple[str, ...] = names(
        "cleanup.policy",
        ("delete",),
        some_of("compact", "delete"),
        notation=DISTINCT,
        synonyms=(Synonym("log.cleanup.policy"),),
        help="What happens to old segments: delete drops them by age and size, compact keeps the last value of a key.",
    )
    compression_gzip_level: int = integer(
        "compression.gzip.level",
        -1,
        between_or(1, 9, -1),
        synonyms=(Synonym("compression.gzip.level"),),
        help="Level of gzip where compression.type is gzip; -1 is the library's own default.",
    )
    compression_lz4_level: int = integer(
        "compression.lz4.level",
        9,
        between(1, 17),
        synonyms=(Synonym("compression.lz4.level"),),
        help="Level of lz4 where compression.type is lz4.",
    )
    compression_type: str = string(
        "compression.type",
        "producer",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        synonyms=(Synonym("compression.type"),),
        help="Codec in which batches are stored; producer keeps the bytes as they came.",
    )
    compression_zstd_level: int = integer(
        "compression.zstd.level",
        3,
        between(-131072, 22),
        synonyms=(Synonym("compression.zstd.level"),),
        help="Level of zstd where compression.type is zstd.",
    )
    delete_retention_ms: int = long(
        "delete.retention.ms",
        86_400_000,
        at_least(0),
        synonyms=(Synonym("log.cleaner.delete.retention.ms"),),
        help="How long a compacted topic keeps the tombstone of a deleted key, so that slow readers still see it.",
    )
    file_delete_delay_ms: int = long(
        "file.delete.delay.ms",
        60_000,
        at_least(0),
        synonyms=(Synonym("log.segment.delete.delay.ms"),),
        help="How long the files of a deleted segment stay on disk, so that reads in flight can end.",
    )
    flush_messages: int = long(
        "flush.messages",
        LONG_MAX,
        at_least(1),
        synonyms=(Synonym("log.flush.interval.messages"),),
        help="Records appended since the last fsync that call for the next one.",
    )
    flush_ms: int = long(
        "flush.ms",
        LONG_MAX,
        at_least(0),
        synonyms=(Synonym("log.flush.interval.ms"), Synonym("log.flush.scheduler.interval.ms")),
        help="Longest time that an appended record waits for fsync.",
    )
    follower_replication_throttled_replicas: tuple[str, ...] = names(
        "follower.replication.throttled.replicas",
        (),
        throttled_replicas(),
        help="Replicas whose fetching is throttled on the follower: partition:broker pairs, or * for all.",
    )
    index_interval_bytes: int = integer(
        "index.interval.bytes",
        4096,
        at_least(0),
        synonyms=(Synonym("log.index.interval.bytes"),),
        help="Bytes of log between two entries of the offset index.",
    )
    internal_segment_bytes: int | None = integer(
        "internal.segment.bytes",
        None,
        internal=True,
        help="Segment size without a lower limit, for tests; wins over segment.bytes.",
    )
    leader_replication_throttled_replicas: tuple[str, ...] = names(
        "leader.replication.throttled.replicas",
        (),
        throttled_replicas(),
        help="Replicas whose fetching is throttled on the leader: partition:broker pairs, or * for all.",
    )
    local_retention_bytes: int = long(
        "local.retention.bytes",
        -2,
        at_least(-2),
        synonyms=(Synonym("log.local.retention.bytes"),),
        help="Bytes kept on local disk where tiered storage is on; -2 takes retention.bytes.",
    )
    local_retention_ms: int = long(
        "local.retention.ms",
        -2,
        at_least(-2),
        synonyms=(Synonym("log.local.retention.ms"),),
        help="Time kept on local disk where tiered storage is on; -2 takes retention.ms.",
    )
    max_compaction_lag_ms: int = long(
        "max.compaction.lag.ms",
        LONG_MAX,
        at_least(1),
        synonyms=(Synonym("log.cleaner.max.compaction.lag.ms"),),
        help="Longest time that a record of a compacted topic may stay uncompacted.",
    )
    max_message_bytes: int = integer(
        "max.message.bytes",
        1_048_588,
        at_least(0),
        synonyms=(Synonym("message.max.bytes"),),
        help="Largest record batch that the topic takes, header included.",
    )
    message_timestamp_after_max_ms: int = long(
        "message.timestamp.after.max.ms",
        HOUR_MS,
        at_least(0),
        synonyms=(Synonym("log.message.timestamp.after.max.ms"),),
        help="How far ahead of the broker's clock a producer's timestamp may be.",
    )
    message_timestamp_before_max_ms: int = long(
        "message.timestamp.before.max.ms",
        LONG_MAX,
        at_least(0),
        synonyms=(Synonym("log.message.timestamp.before.max.ms"),),
        help="How far behind the broker's clock a producer's timestamp may be.",
    )
    message_timestamp_type: str = string(
        "message.timestamp.type",
        "CreateTime",
        one_of("CreateTime", "LogAppendTime"),
        synonyms=(Synonym("log.message.timestamp.type"),),
        help="Whether a record carries the producer's time or that of its append.",
    )
    min_cleanable_dirty_ratio: float = double(
        "min.cleanable.dirty.ratio",
        0.5,
        between(0, 1),
        synonyms=(Synonym("log.cleaner.min.cleanable.ratio"),),
        help="Share of the log that must be uncompacted before compaction takes it up.",
    )
    min_compaction_lag_ms: int = long(
        "min.compaction.lag.ms",
        0,
        at_least(0),
        synonyms=(Synonym("log.cleaner.min.compaction.lag.ms"),),
        help="Least time that a record stays before compaction may drop it.",
    )
    min_insync_replicas: int = integer(
        "min.insync.replicas",
        1,
        at_least(1),
        synonyms=(Synonym("min.insync.replicas"),),
        help="Replicas that must be in sync for a write with acks=all to be taken.",
    )
    preallocate: bool = boolean(
        "preallocate",
        False,
        synonyms=(Synonym("log.preallocate"),),
        help="Kept and shown for Kafka's tools; segments always grow as they are written.",
    )
    record_validation: str = string(
        "record.validation",
        "header",
        one_of("header", "compressed", "all"),
        synonyms=(Synonym("log.record.validation"),),
        help="Batches whose records the leader checks: none beyond the header, compressed ones, or all. Not in Kafka.",
    )
    remote_log_copy_disable: bool = boolean(
        "remote.log.copy.disable",
        False,
        help="Whether a tiered topic stops copying to remote storage.",
    )
    remote_log_delete_on_disable: bool = boolean(
        "remote.log.delete.on.disable",
        False,
        help="Whether remote data goes when tiered storage is turned off for the topic.",
    )
    remote_storage_enable: bool = boolean(
        "remote.storage.enable",
        False,
        help="Tiered storage for the topic; Barnabas has none, so only false is taken.",
    )
    retention_bytes: int = long(
        "retention.bytes",
        -1,
        synonyms=(Synonym("log.retention.bytes"),),
        help="Bytes of a partition above which its oldest segments go; -1 for no limit.",
    )
    retention_ms: int = long(
        "retention.ms",
        7 * 24 * HOUR_MS,
        at_least(-1),
        synonyms=(
            Synonym("log.retention.ms"),
            Synonym("log.retention.minutes", MINUTE_MS),
            Synonym("log.retention.hours", HOUR_MS),
        ),
        help="Age of its newest record at which a segment goes; -1 for no limit.",
    )
    segment_bytes: int = integer(
        "segment.bytes",
        1 << 30,
        at_least(1 << 20),
        synonyms=(Synonym("log.segment.bytes"),),
        help="Size at which a segment is closed and the next one begun.",
    )
    segment_index_bytes: int = integer(
        "segment.index.bytes",
        10 << 20,
        at_least(4),
        synonyms=(Synonym("log.index.size.max.bytes"),),
        help="Largest size of an offset index; a full index closes the segment.",
    )
    segment_jitter_ms: int = long(
        "segment.jitter.ms",
        0,
        at_least(0),
        synonyms=(Synonym("log.roll.jitter.ms"), Synonym("log.roll.jitter.hours", HOUR_MS)),
        help="Random time taken off segment.ms, so that partitions do not roll all at once.",
    )
    segment_ms: int = long(
        "segment.ms",
        7 * 24 * HOUR_MS,
        at_least(1),
        synonyms=(Synonym("log.roll.ms"), Synonym("log.roll.hours", HOUR_MS)),
        help="Age at which a segment is closed even if it is not full.",
    )
    unclean_leader_election_enable: bool = boolean(
        "unclean.leader.election.enable",
        False,
        synonyms=(Synonym("unclean.leader.election.enable"),),
        help="Whether a replica that lags may become leader when no other is left, at the price of lost records.",
    )

    def __init__(self, overrides: Mapping[str, str], broker: BrokerConfig) -> None:
        self._fill(overrides, lambda setting: inherited(setting, broker), "topic")
        if self.internal_segment_bytes is not None:
            object.__setattr__(self, "segment_bytes", self.internal_segment_bytes)

    @classmethod
    def checked(cls, overrides: Mapping[str, str], broker: BrokerConfig) -> Self:
        """For values that someone asks for now: also refuses what does not fit together.

        The constructor does not: a broker's default may change later under a topic that was fine when it was made.
        """
        config = cls(overrides, broker)
        if overrides and config.min_compaction_lag_ms > config.max_compaction_lag_ms:
            raise ConfigError(
                f"min.compaction.lag.ms: {config.min_compaction_lag_ms} is not allowed; it must be at most "
                f"max.compaction.lag.ms, which is {config.max_compaction_lag_ms}"
            )
        if config.remote_storage_enable:
            raise ConfigError("remote.storage.enable: 'true' is not allowed; this broker has no tiered storage")
        return config


def inherited(setting: Setting, broker: BrokerConfig) -> Any:
    """What a topic has where it sets nothing itself: the first synonym that its broker has, else the default."""
    for synonym in setting.synonyms:
        value = broker.value(synonym.name)
        if value is not None:
            scaled = value if synonym.scale == 1 else value * synonym.scale
            # Any negative retention means no limit, in hours as in milliseconds.
            return max(scaled, -1) if setting.name == "retention.ms" else scaled
    return setting.default
