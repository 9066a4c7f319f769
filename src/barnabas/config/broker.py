"""The settings of a broker, by Kafka's names. Only settings that have an effect are here; `inapplicable` has the rest.

Defaults are Kafka's except where one node must be able to start from nothing: `node.id`, `process.roles`,
`controller.listener.names` and `log.dir` have none in Kafka, or one that would collide with it.
"""

from collections.abc import Mapping

from barnabas.config.cleaner import CleanerConfig
from barnabas.config.endpoints import ENDPOINTS, PROTOCOL_MAP, UPPER_CASE, WILDCARD_HOSTS, Endpoint
from barnabas.config.setting import DISTINCT, Update, boolean, double, integer, long, names, string
from barnabas.config.validation import (
    INT_MAX,
    LONG_MAX,
    ConfigError,
    at_least,
    at_most_one,
    between,
    between_or,
    not_zero,
    one_of,
    one_or_more_of,
    some_of,
)

CLUSTER_WIDE = Update.CLUSTER_WIDE
OLDER_NAMES = {"broker.id": "node.id"}


class BrokerConfig(CleanerConfig):
    """Built from what was set in the file or on the command line, and later from dynamic values too. Immutable."""

    # Who the node is
    node_id: int = integer(
        "node.id", 1, at_least(0), help="Number of this node in its cluster; broker.id is its old name."
    )
    process_roles: tuple[str, ...] = names(
        "process.roles",
        ("broker", "controller"),
        one_or_more_of("broker", "controller"),
        help="What the node does: keeps partitions, votes on metadata, or both.",
    )
    broker_rack: str | None = string("broker.rack", None, help="Where the node stands; replicas are spread over racks.")

    # Where it listens
    listeners: tuple[Endpoint, ...] = names(
        "listeners",
        (Endpoint("PLAINTEXT", "", 9092),),
        notation=ENDPOINTS,
        help="Addresses to listen on, as NAME://host:port; without a host on every interface.",
    )
    advertised_listeners: tuple[Endpoint, ...] | None = names(
        "advertised.listeners",
        None,
        notation=ENDPOINTS,
        help="Addresses that clients are told; without it those of listeners, or what they dialled for an empty host.",
    )
    listener_security_protocol_map: Mapping[str, str] = string(
        "listener.security.protocol.map",
        {
            "SASL_SSL": "SASL_SSL",
            "PLAINTEXT": "PLAINTEXT",
            "SSL": "SSL",
            "SASL_PLAINTEXT": "SASL_PLAINTEXT",
        },
        notation=PROTOCOL_MAP,
        help="Security protocol of each listener name, as NAME:PROTOCOL; a controller listener may be missing here.",
    )
    controller_listener_names: tuple[str, ...] = names(
        "controller.listener.names",
        (),
        notation=UPPER_CASE,
        help="Listeners on which the metadata quorum speaks.",
    )
    inter_broker_listener_name: str | None = string(
        "inter.broker.listener.name", None, help="Listener on which brokers speak to each other."
    )

    # As a member of its cluster
    broker_session_timeout_ms: int = integer(
        "broker.session.timeout.ms", 9_000, help="A broker of which nothing was heard for so long is fenced."
    )
    broker_heartbeat_interval_ms: int = integer(
        "broker.heartbeat.interval.ms", 2_000, help="How often a broker tells the controller that it lives."
    )
    controlled_shutdown_enable: bool = boolean(
        "controlled.shutdown.enable", True, help="Whether a broker that stops lets others lead its partitions first."
    )

    # Where it keeps its files
    log_dir: tuple[str, ...] = names(
        "log.dir", ("/tmp/barnabas-logs",), at_most_one(), help="Directory of the data where log.dirs is not set."
    )
    log_dirs: tuple[str, ...] | None = names(
        "log.dirs", None, at_most_one(), help="Directory of the data; one only: run a broker for each disk."
    )
    metadata_log_dir: str | None = string(
        "metadata.log.dir", None, help="Directory of the metadata log; without it, that of the data."
    )

    # Topics
    num_partitions: int = integer(
        "num.partitions", 1, at_least(1), help="Partitions of a new topic whose maker does not say."
    )
    default_replication_factor: int = integer(
        "default.replication.factor", 1, help="Replicas of a new topic whose maker does not say."
    )
    auto_create_topics_enable: bool = boolean(
        "auto.create.topics.enable", True, help="Whether asking for an unknown topic makes it."
    )
    delete_topic_enable: bool = boolean("delete.topic.enable", True, help="Whether topics can be deleted.")
    unstable_api_versions_enable: bool = boolean(
        "unstable.api.versions.enable",
        False,
        internal=True,
        help="Whether versions of APIs are served that Kafka has not released: InitProducerId 6.",
    )
    min_insync_replicas: int = integer(
        "min.insync.replicas",
        1,
        at_least(1),
        update=CLUSTER_WIDE,
        help="Default of the topic setting of the same name.",
    )
    unclean_leader_election_enable: bool = boolean(
        "unclean.leader.election.enable",
        False,
        update=CLUSTER_WIDE,
        help="Default of the topic setting of the same name.",
    )

    # Defaults of topic settings
    message_max_bytes: int = integer(
        "message.max.bytes", 1_048_588, at_least(0), update=CLUSTER_WIDE, help="Default of max.message.bytes of topics."
    )
    compression_type: str = string(
        "compression.type",
        "producer",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        update=CLUSTER_WIDE,
        help="Default of the topic setting of the same name.",
    )
    compression_gzip_level: int = integer(
        "compression.gzip.level",
        -1,
        between_or(1, 9, -1),
        update=CLUSTER_WIDE,
        help="Default of the topic setting of the same name.",
    )
    compression_lz4_level: int = integer(
        "compression.lz4.level",
        9,
        between(1, 17),
        update=CLUSTER_WIDE,
        help="Default of the topic setting of the same name.",
    )
    compression_zstd_level: int = integer(
        "compression.zstd.level",
        3,
        between(-131072, 22),
        update=CLUSTER_WIDE,
        help="Default of the topic setting of the same name.",
    )
    log_cleanup_policy: tuple[str, ...] = names(
        "log.cleanup.policy",
        ("delete",),
        some_of("compact", "delete"),
        notation=DISTINCT,
        update=CLUSTER_WIDE,
        help="Default of cleanup.policy of topics.",
    )
    log_cleaner_delete_retention_ms: int = long(
        "log.cleaner.delete.retention.ms",
        86_400_000,
        at_least(0),
        update=CLUSTER_WIDE,
        help="Default of delete.retention.ms of topics.",
    )
    log_cleaner_max_compaction_lag_ms: int = long(
        "log.cleaner.max.compaction.lag.ms",
        LONG_MAX,
        at_least(1),
        update=CLUSTER_WIDE,
        help="Default of max.compaction.lag.ms of topics.",
    )
    log_cleaner_min_cleanable_ratio: float = double(
        "log.cleaner.min.cleanable.ratio",
        0.5,
        between(0, 1),
        update=CLUSTER_WIDE,
        help="Default of min.cleanable.dirty.ratio of topics.",
    )
    log_cleaner_min_compaction_lag_ms: int = long(
        "log.cleaner.min.compaction.lag.ms",
        0,
        at_least(0),
        update=CLUSTER_WIDE,
        help="Default of min.compaction.lag.ms of topics.",
    )
    log_flush_interval_messages: int = long(
        "log.flush.interval.messages",
        LONG_MAX,
        at_least(1),
        update=CLUSTER_WIDE,
        help="Default of flush.messages of topics.",
    )
    log_flush_interval_ms: int | None = long(
        "log.flush.interval.ms", None, update=CLUSTER_WIDE, help="Default of flush.ms of topics."
    )
    log_flush_scheduler_interval_ms: int = long(
        "log.flush.scheduler.interval.ms",
        LONG_MAX,
        help="Default of flush.ms of topics where log.flush.interval.ms is not set.",
    )
    log_index_interval_bytes: int = integer(
        "log.index.interval.bytes",
        4096,
        at_least(0),
        update=CLUSTER_WIDE,
        help="Default of index.interval.bytes of topics.",
    )
    log_index_size_max_bytes: int = integer(
        "log.index.size.max.bytes",
        10 << 20,
        at_least(4),
        update=CLUSTER_WIDE,
        help="Default of segment.index.bytes of topics.",
    )
    log_local_retention_bytes: int = long(
        "log.local.retention.bytes",
        -2,
        at_least(-2),
        update=CLUSTER_WIDE,
        help="Default of local.retention.bytes of topics.",
    )
    log_local_retention_ms: int = long(
        "log.local.retention.ms",
        -2,
        at_least(-2),
        update=CLUSTER_WIDE,
        help="Default of local.retention.ms of topics.",
    )
    log_message_timestamp_after_max_ms: int = long(
        "log.message.timestamp.after.max.ms",
        3_600_000,
        at_least(0),
        update=CLUSTER_WIDE,
        help="Default of message.timestamp.after.max.ms of topics.",
    )
    log_message_timestamp_before_max_ms: int = long(
        "log.message.timestamp.before.max.ms",
        LONG_MAX,
        at_least(0),
        update=CLUSTER_WIDE,
        help="Default of message.timestamp.before.max.ms of topics.",
    )
    log_message_timestamp_type: str = string(
        "log.message.timestamp.type",
        "CreateTime",
        one_of("CreateTime", "LogAppendTime"),
        update=CLUSTER_WIDE,
        help="Default of message.timestamp.type of topics.",
    )
    log_preallocate: bool = boolean(
        "log.preallocate", False, update=CLUSTER_WIDE, help="Default of preallocate of topics."
    )
    log_record_validation: str = string(
        "log.record.validation",
        "header",
        one_of("header", "compressed", "all"),
        update=CLUSTER_WIDE,
        help="Default of record.validation of topics. Not in Kafka.",
    )
    log_retention_bytes: int = long(
        "log.retention.bytes", -1, update=CLUSTER_WIDE, help="Default of retention.bytes of topics."
    )
    log_retention_hours: int = integer(
        "log.retention.hours",
        168,
        not_zero(),
        help="Default of retention.ms of topics, in hours, where neither minutes nor milliseconds are set.",
    )
    log_retention_minutes: int | None = integer(
        "log.retention.minutes",
        None,
        not_zero(),
        help="Default of retention.ms of topics, in minutes; wins over hours.",
    )
    log_retention_ms: int | None = long(
        "log.retention.ms",
        None,
        not_zero(),
        update=CLUSTER_WIDE,
        help="Default of retention.ms of topics; wins over minutes and hours.",
    )
    log_roll_hours: int = integer(
        "log.roll.hours",
        168,
        at_least(1),
        help="Default of segment.ms of topics, in hours, where log.roll.ms is not set.",
    )
    log_roll_jitter_hours: int = integer(
        "log.roll.jitter.hours",
        0,
        at_least(0),
        help="Default of segment.jitter.ms of topics, in hours, where log.roll.jitter.ms is not set.",
    )
    log_roll_jitter_ms: int | None = long(
        "log.roll.jitter.ms", None, at_least(0), update=CLUSTER_WIDE, help="Default of segment.jitter.ms of topics."
    )
    log_roll_ms: int | None = long(
        "log.roll.ms", None, at_least(1), update=CLUSTER_WIDE, help="Default of segment.ms of topics."
    )
    log_segment_bytes: int = integer(
        "log.segment.bytes",
        1 << 30,
        at_least(1 << 20),
        update=CLUSTER_WIDE,
        help="Default of segment.bytes of topics.",
    )
    log_segment_delete_delay_ms: int = long(
        "log.segment.delete.delay.ms",
        60_000,
        at_least(0),
        update=CLUSTER_WIDE,
        help="Default of file.delete.delay.ms of topics.",
    )

    # Work on the logs in the background
    log_retention_check_interval_ms: int = long(
        "log.retention.check.interval.ms",
        300_000,
        at_least(1),
        help="How often logs are looked through for segments that may go.",
    )
    log_flush_offset_checkpoint_interval_ms: int = integer(
        "log.flush.offset.checkpoint.interval.ms",
        60_000,
        at_least(0),
        help="How often the offsets up to which logs are flushed are written down, from which recovery starts.",
    )
    replica_high_watermark_checkpoint_interval_ms: int = long(
        "replica.high.watermark.checkpoint.interval.ms",
        5_000,
        help="How often high watermarks are written down.",
    )
    producer_id_expiration_ms: int = integer(
        "producer.id.expiration.ms",
        86_400_000,
        at_least(1),
        update=CLUSTER_WIDE,
        help="How long a partition remembers the sequence numbers of a producer that writes no more.",
    )
    producer_id_expiration_check_interval_ms: int = integer(
        "producer.id.expiration.check.interval.ms",
        600_000,
        at_least(1),
        internal=True,
        help="How often partitions forget producers that have expired.",
    )

    # Connections and requests
    socket_request_max_bytes: int = integer(
        "socket.request.max.bytes", 100 << 20, at_least(1), help="Largest request; a longer one closes the connection."
    )
    socket_send_buffer_bytes: int = integer(
        "socket.send.buffer.bytes",
        102_400,  # consumers read 1.7 times as fast as with the system's 4 MiB: they work while the rest is sent
        at_least(-1),
        help="The kernel's buffer for what a connection has yet to send; -1 lets the operating system choose.",
    )
    max_connections: int = integer(
        "max.connections",
        INT_MAX,
        at_least(0),
        update=CLUSTER_WIDE,
        help="Connections of the broker at one time; more are closed at once.",
    )
    max_connections_per_ip: int = integer(
        "max.connections.per.ip",
        INT_MAX,
        at_least(0),
        update=CLUSTER_WIDE,
        help="Connections from one address at one time; more are closed at once.",
    )
    connections_max_idle_ms: int = long(
        "connections.max.idle.ms", 600_000, help="How long a silent connection stays open; negative for ever."
    )
    queued_max_requests: int = integer(
        "queued.max.requests",
        500,
        at_least(1),
        help="Requests of one connection that may be unanswered before the broker stops reading from it.",
    )
    fetch_max_bytes: int = integer(
        "fetch.max.bytes", 55 << 20, at_least(1024), help="Most bytes in the answer to a fetch."
    )
    max_incremental_fetch_session_cache_slots: int = integer(
        "max.incremental.fetch.session.cache.slots", 1000, at_least(0), help="Fetch sessions kept at one time."
    )
    max_request_partition_size_limit: int = integer(
        "max.request.partition.size.limit", 2000, at_least(1), help="Most partitions that one request may describe."
    )
    telemetry_max_bytes: int = integer(
        "telemetry.max.bytes", 1 << 20, at_least(1), help="Largest compressed batch of metrics taken from a client."
    )

    def __init__(self, overrides: Mapping[str, str]) -> None:
        self._fill(overrides, lambda setting: setting.default, "broker")
        self._check_listeners()
        self._check_quorum()
        self.check_consumer_groups()

    @property
    def data_directory(self) -> str:
        return (self.log_dirs or self.log_dir)[0]

    def security_protocol(self, listener_name: str) -> str | None:
        """None where the listener is unknown. Controllers speak plainly unless the map says otherwise."""
        protocol = self.listener_security_protocol_map.get(listener_name)
        if protocol is None and listener_name in self.controller_listener_names:
            return None if "listener.security.protocol.map" in self.overrides else "PLAINTEXT"
        return protocol

    def _check_listeners(self) -> None:
        listening = {endpoint.listener_name for endpoint in self.listeners}
        for endpoint in (*self.listeners, *(self.advertised_listeners or ())):
            protocol = self.security_protocol(endpoint.listener_name)
            if protocol is None:
                raise ConfigError(f"listeners: {endpoint} has a name that listener.security.protocol.map does not list")
            if protocol != "PLAINTEXT":
                raise ConfigError(f"listeners: {endpoint} is not allowed; only PLAINTEXT is available yet")
        for endpoint in self.advertised_listeners or ():
            if endpoint.listener_name not in listening:
                raise ConfigError(f"advertised.listeners: {endpoint} is not allowed; listeners has no such name")
            if endpoint.host in WILDCARD_HOSTS:
                raise ConfigError(f"advertised.listeners: {endpoint} is not allowed; clients need an address to dial")
        name = self.inter_broker_listener_name
        # A controller alone has no listener for brokers; the setting often stands in a file that all nodes share.
        if name is not None and "broker" in self.process_roles and name.upper() not in listening:
            raise ConfigError(f"inter.broker.listener.name: {name!r} is not allowed; listeners has no such name")

    def _check_quorum(self) -> None:
        is_controller, is_broker = "controller" in self.process_roles, "broker" in self.process_roles
        voters = {each.node_id for each in self.controller_quorum_voters}
        if voters and is_controller != (self.node_id in voters):
            words = "a controller, and must be among the voters" if is_controller else "a broker only, and cannot vote"
            raise ConfigError(f"controller.quorum.voters: node {self.node_id} is {words}")
        if not is_controller and not voters and not self.controller_quorum_bootstrap_servers:
            raise ConfigError("controller.quorum.bootstrap.servers: a broker alone must know where the quorum is")
        if not self.controller_listener_names and (
            len(voters) > 1 or not (is_controller and is_broker) or self.controller_quorum_bootstrap_servers
        ):
            raise ConfigError("controller.listener.names: members of a quorum need a listener to speak on")
        listening = {endpoint.listener_name for endpoint in self.listeners}
        for name in self.controller_listener_names:
            if is_controller and name not in listening:
                raise ConfigError(f"controller.listener.names: {name!r} is not allowed; listeners has no such name")
            if not is_controller and name in listening:
                raise ConfigError(f"listeners: {name!r} is not allowed; this node is no controller")
        if not is_broker and not listening <= set(self.controller_listener_names):
            raise ConfigError("listeners: a controller alone serves no clients; name only controller.listener.names")


def effective(static: BrokerConfig, *dynamic: Mapping[str, str]) -> tuple[BrokerConfig, list[str]]:
    """The config with dynamic values on top, the last mapping strongest, and what could not be used of them."""
    overrides = dict(static.overrides)
    complaints: list[str] = []
    for layer in dynamic:
        usable, unusable = BrokerConfig.usable(layer)
        complaints += unusable
        for name, text in usable.items():
            if is_dynamic(name):
                overrides[name] = text
            else:
                complaints.append(f"{name} cannot change while the broker runs")
    return BrokerConfig(overrides), complaints


def is_dynamic(name: str) -> bool:
    setting = BrokerConfig.SETTINGS.get(name)
    return setting is not None and setting.update is not Update.READ_ONLY
