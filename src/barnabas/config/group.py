"""The settings of single groups. What is not set for a group is what its broker has.

Those of share groups and streams groups can be set and shown, as in Kafka, so that tools work; there are no such groups
yet, so they have no effect. Their broker settings do not exist here: Kafka's defaults hold.
"""

import re
from collections.abc import Mapping
from typing import Any, Self

from barnabas.config.consumer_groups import ConsumerGroupConfig
from barnabas.config.setting import Config, Setting, Synonym, boolean, integer, string
from barnabas.config.validation import Allowed, ConfigError, OutOfRange, at_least, between, one_of

_DURATION = re.compile(r"by_duration:P(?!$)(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+([.,]\d{0,9})?S)?)?", re.IGNORECASE)


def _reset_strategy() -> Allowed:
    """Where a share group begins to read."""
    return Allowed(
        lambda text: text in ("latest", "earliest") or _DURATION.fullmatch(text) is not None,
        "latest, earliest or by_duration:PnDTnHnMn.nS",
    )


class GroupConfig(Config):
    """Built from what was set for the group, over what its broker has. Immutable."""

    consumer_session_timeout_ms: int = integer(
        "consumer.session.timeout.ms",
        45_000,
        at_least(1),
        synonyms=(Synonym("group.consumer.session.timeout.ms"),),
        help="How long a member may be silent before it is taken for dead.",
    )
    consumer_heartbeat_interval_ms: int = integer(
        "consumer.heartbeat.interval.ms",
        5_000,
        at_least(1),
        synonyms=(Synonym("group.consumer.heartbeat.interval.ms"),),
        help="How often members are told to send heartbeats.",
    )
    consumer_assignment_interval_ms: int = integer(
        "consumer.assignment.interval.ms",
        1_000,
        at_least(0),
        synonyms=(Synonym("group.consumer.assignment.interval.ms"),),
        help="Least time between two assignments.",
    )

    share_session_timeout_ms: int = integer(
        "share.session.timeout.ms",
        45_000,
        between(45_000, 60_000),
        synonyms=(Synonym("group.share.session.timeout.ms"),),
        help="No effect: there are no share groups.",
    )
    share_heartbeat_interval_ms: int = integer(
        "share.heartbeat.interval.ms",
        5_000,
        between(5_000, 15_000),
        synonyms=(Synonym("group.share.heartbeat.interval.ms"),),
        help="No effect: there are no share groups.",
    )
    share_record_lock_duration_ms: int = integer(
        "share.record.lock.duration.ms",
        30_000,
        between(15_000, 60_000),
        synonyms=(Synonym("group.share.record.lock.duration.ms"),),
        help="No effect: there are no share groups.",
    )
    share_delivery_count_limit: int = integer(
        "share.delivery.count.limit",
        5,
        between(2, 10),
        synonyms=(Synonym("group.share.delivery.count.limit"),),
        help="No effect: there are no share groups.",
    )
    share_partition_max_record_locks: int = integer(
        "share.partition.max.record.locks",
        2_000,
        between(100, 4_000),
        synonyms=(Synonym("group.share.partition.max.record.locks"),),
        help="No effect: there are no share groups.",
    )
    share_assignment_interval_ms: int = integer(
        "share.assignment.interval.ms",
        1_000,
        between(0, 15_000),
        synonyms=(Synonym("group.share.assignment.interval.ms"),),
        help="No effect: there are no share groups.",
    )
    share_auto_offset_reset: str = string(
        "share.auto.offset.reset", "latest", _reset_strategy(), help="No effect: there are no share groups."
    )
    share_isolation_level: str = string(
        "share.isolation.level",
        "read_uncommitted",
        one_of("read_committed", "read_uncommitted"),
        help="No effect: there are no share groups.",
    )
    share_renew_acknowledge_enable: bool = boolean(
        "share.renew.acknowledge.enable", True, help="No effect: there are no share groups."
    )
    streams_session_timeout_ms: int = integer(
        "streams.session.timeout.ms",
        45_000,
        between(45_000, 60_000),
        synonyms=(Synonym("group.streams.session.timeout.ms"),),
        help="No effect: there are no streams groups.",
    )
    streams_heartbeat_interval_ms: int = integer(
        "streams.heartbeat.interval.ms",
        5_000,
        between(5_000, 15_000),
        synonyms=(Synonym("group.streams.heartbeat.interval.ms"),),
        help="No effect: there are no streams groups.",
    )
    streams_num_standby_replicas: int = integer(
        "streams.num.standby.replicas",
        0,
        between(0, 2),
        synonyms=(Synonym("group.streams.num.standby.replicas"),),
        help="No effect: there are no streams groups.",
    )
    streams_initial_rebalance_delay_ms: int = integer(
        "streams.initial.rebalance.delay.ms",
        3_000,
        at_least(0),
        synonyms=(Synonym("group.streams.initial.rebalance.delay.ms"),),
        help="No effect: there are no streams groups.",
    )
    streams_assignment_interval_ms: int = integer(
        "streams.assignment.interval.ms",
        1_000,
        between(0, 15_000),
        synonyms=(Synonym("group.streams.assignment.interval.ms"),),
        help="No effect: there are no streams groups.",
    )

    def __init__(self, overrides: Mapping[str, str], broker: ConsumerGroupConfig) -> None:
        """A value out of the broker's range, which may have changed since it was set, counts as its nearest end."""

        def default(setting: Setting) -> Any:
            return broker.value(setting.synonyms[0].name) if _is_of_consumers(setting) else setting.default

        self._fill(overrides, default, "group")
        for setting in filter(_is_of_consumers, self.SETTINGS.values()):
            least, most = range_of(setting, broker)
            value = self.value(setting.name)
            object.__setattr__(self, setting.attribute, min(max(value, least), most))

    @classmethod
    def checked(cls, overrides: Mapping[str, str], broker: ConsumerGroupConfig) -> Self:
        """For values that someone asks for now: refuses what is out of range, and what does not fit together."""
        config = cls(overrides, broker)
        for name, text in overrides.items():
            setting = cls.SETTINGS[name]
            if not _is_of_consumers(setting):
                continue
            least, most = range_of(setting, broker)
            if not least <= setting.decode(text) <= most:
                raise OutOfRange(f"{name}: {text!r} is not allowed; it must be between {least} and {most}")
        for kind in ("consumer", "share", "streams"):
            session_ms = config.value(f"{kind}.session.timeout.ms")
            heartbeat_ms = config.value(f"{kind}.heartbeat.interval.ms")
            if session_ms <= heartbeat_ms:
                raise ConfigError(
                    f"{kind}.session.timeout.ms: {session_ms} is not allowed; it must be more than "
                    f"{kind}.heartbeat.interval.ms, {heartbeat_ms}"
                )
        return config


def _is_of_consumers(setting: Setting) -> bool:
    return setting.name.startswith("consumer.")


def range_of(setting: Setting, broker: ConsumerGroupConfig) -> tuple[int, int]:
    """What the broker allows for single groups."""
    kind = setting.name.removeprefix("consumer.")
    return broker.value(f"group.consumer.min.{kind}"), broker.value(f"group.consumer.max.{kind}")
