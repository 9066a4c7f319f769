"""Settings of the metadata quorum and its log: who votes, how long one waits for another, what is kept.

`BrokerConfig` has them too.
"""

from barnabas.config.endpoints import SERVERS, VOTERS, Server, Voter
from barnabas.config.replication import ReplicationConfig
from barnabas.config.setting import boolean, integer, long, names
from barnabas.config.validation import at_least

SEGMENT_BYTES_MIN = 8 << 20  # one batch must fit


class QuorumConfig(ReplicationConfig):
    controller_quorum_voters: tuple[Voter, ...] = names(
        "controller.quorum.voters", (), notation=VOTERS, help="Nodes that vote on metadata, as id@host:port."
    )
    controller_quorum_bootstrap_servers: tuple[Server, ...] = names(
        "controller.quorum.bootstrap.servers",
        (),
        notation=SERVERS,
        help="Addresses at which the metadata quorum is found, as host:port.",
    )
    controller_quorum_election_timeout_ms: int = integer(
        "controller.quorum.election.timeout.ms",
        1000,
        at_least(0),
        help="How long a voter waits for a majority, at least, before it tries again.",
    )
    controller_quorum_fetch_timeout_ms: int = integer(
        "controller.quorum.fetch.timeout.ms",
        2000,
        at_least(0),
        help="How long a voter waits for a word of its leader before it tries to succeed it.",
    )
    controller_quorum_election_backoff_max_ms: int = integer(
        "controller.quorum.election.backoff.max.ms",
        1000,
        at_least(0),
        help="How long a voter rests, at most, after it lost an election.",
    )
    controller_quorum_fetch_max_bytes: int = integer(
        "controller.quorum.fetch.max.bytes",
        1 << 20,
        at_least(1),
        help="How much of the metadata log is fetched at once; a larger batch is fetched whole.",
    )
    controller_quorum_fetch_snapshot_max_bytes: int = integer(
        "controller.quorum.fetch.snapshot.max.bytes",
        1 << 20,
        at_least(1),
        help="How much of a snapshot of the metadata is fetched at once.",
    )
    controller_quorum_auto_join_enable: bool = boolean(
        "controller.quorum.auto.join.enable",
        False,
        help="Whether a controller that is found not to vote, where voters stand in the log, makes itself a voter.",
    )
    metadata_log_segment_bytes: int = integer(
        "metadata.log.segment.bytes",
        1 << 30,
        at_least(SEGMENT_BYTES_MIN),
        help="Largest file of the metadata log.",
    )
    metadata_log_segment_ms: int = long(
        "metadata.log.segment.ms", 604_800_000, help="How long the metadata log writes to one file."
    )
    metadata_log_max_record_bytes_between_snapshots: int = long(
        "metadata.log.max.record.bytes.between.snapshots",
        20 << 20,
        at_least(1),
        help="A snapshot of the metadata is written after so many bytes of its log.",
    )
    metadata_log_max_snapshot_interval_ms: int = long(
        "metadata.log.max.snapshot.interval.ms",
        3_600_000,
        at_least(0),
        help="A snapshot of the metadata is written so long after the last one, if anything changed; 0: only by size.",
    )
    metadata_max_retention_bytes: int = long(
        "metadata.max.retention.bytes",
        100 << 20,
        help="Metadata log and snapshots together: beyond it what a later snapshot has is deleted; negative: never.",
    )
    metadata_max_retention_ms: int = long(
        "metadata.max.retention.ms",
        604_800_000,
        help="Metadata older than this is deleted where a later snapshot has it; negative: never.",
    )
