"""The settings of consumer groups (KIP-848), by Kafka's names. `BrokerConfig` has them too."""

from barnabas.config.setting import DISTINCT, Config, Notation, Update, integer, names, string
from barnabas.config.validation import INT_MAX, ConfigError, at_least, one_of, one_or_more_of


class ConsumerGroupConfig(Config):
    group_coordinator_rebalance_protocols: tuple[str, ...] = names(
        "group.coordinator.rebalance.protocols",
        ("classic", "consumer", "streams"),
        one_or_more_of("consumer", "classic", "share", "streams"),
        notation=DISTINCT,
        help="Which group protocols are served, of classic, which always is, and consumer; others do not exist here.",
    )
    group_consumer_session_timeout_ms: int = integer(
        "group.consumer.session.timeout.ms",
        45_000,
        at_least(1),
        help="How long a member of a consumer group may be silent before it is taken for dead.",
    )
    group_consumer_min_session_timeout_ms: int = integer(
        "group.consumer.min.session.timeout.ms", 45_000, at_least(1), help="Shortest such time for a single group."
    )
    group_consumer_max_session_timeout_ms: int = integer(
        "group.consumer.max.session.timeout.ms", 60_000, at_least(1), help="Longest such time for a single group."
    )
    group_consumer_heartbeat_interval_ms: int = integer(
        "group.consumer.heartbeat.interval.ms",
        5_000,
        at_least(1),
        help="How often a member of a consumer group is told to send heartbeats.",
    )
    group_consumer_min_heartbeat_interval_ms: int = integer(
        "group.consumer.min.heartbeat.interval.ms", 5_000, at_least(1), help="Shortest such interval of a single group."
    )
    group_consumer_max_heartbeat_interval_ms: int = integer(
        "group.consumer.max.heartbeat.interval.ms", 15_000, at_least(1), help="Longest such interval of a single group."
    )
    group_consumer_max_size: int = integer(
        "group.consumer.max.size", INT_MAX, at_least(1), help="Most members of one consumer group."
    )
    group_consumer_assignors: tuple[str, ...] = names(
        "group.consumer.assignors",
        ("uniform", "range"),
        one_or_more_of("uniform", "range"),
        notation=DISTINCT,
        help="Assignors that members may ask for; the first is that of groups whose members ask for none.",
    )
    group_consumer_migration_policy: str = string(
        "group.consumer.migration.policy",
        "bidirectional",
        notation=Notation(lambda text: _one_of(text, "disabled", "downgrade", "upgrade", "bidirectional"), str),
        help="Whether a group with members may change its protocol: upgrade, downgrade, bidirectional or disabled.",
    )
    group_consumer_assignment_interval_ms: int = integer(
        "group.consumer.assignment.interval.ms",
        1_000,
        at_least(0),
        update=Update.CLUSTER_WIDE,
        help="Least time between two assignments of a consumer group; kept between the least and the most of it.",
    )
    group_consumer_min_assignment_interval_ms: int = integer(
        "group.consumer.min.assignment.interval.ms", 0, at_least(0), help="Least such time of a single group."
    )
    group_consumer_max_assignment_interval_ms: int = integer(
        "group.consumer.max.assignment.interval.ms", 15_000, at_least(0), help="Most such time of a single group."
    )

    def check_consumer_groups(self) -> None:
        """What must fit together; only settings that are read at start, so that no later change can break it."""
        if "classic" not in self.group_coordinator_rebalance_protocols:
            raise ConfigError("group.coordinator.rebalance.protocols: classic must be among them")
        for kind in ("session.timeout", "heartbeat.interval", "assignment.interval"):
            least, most = f"group.consumer.min.{kind}.ms", f"group.consumer.max.{kind}.ms"
            _check_order(self, least, most)
            if kind != "assignment.interval":  # which is dynamic, and therefore kept in its range where it is used
                _check_order(self, least, f"group.consumer.{kind}.ms")
                _check_order(self, f"group.consumer.{kind}.ms", most)
        if self.group_consumer_heartbeat_interval_ms >= self.group_consumer_session_timeout_ms:
            raise ConfigError(
                f"group.consumer.heartbeat.interval.ms: {self.group_consumer_heartbeat_interval_ms} is not allowed; "
                f"it must be less than group.consumer.session.timeout.ms, {self.group_consumer_session_timeout_ms}"
            )


def _one_of(text: str, *allowed: str) -> str:
    """In lower case, whatever the case of the text."""
    if text.lower() not in allowed:
        raise ValueError(f"it must be {one_of(*allowed).words}")
    return text.lower()


def _check_order(config: Config, smaller: str, larger: str) -> None:
    if config.value(smaller) > config.value(larger):
        raise ConfigError(
            f"{smaller}: {config.value(smaller)} is not allowed; it must be at most {larger}, {config.value(larger)}"
        )
