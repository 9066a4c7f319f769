"""The settings of single groups. What is not set for a group is what its broker has.

Only those of consumer groups are here: there are no share groups and no streams groups.
"""

from collections.abc import Mapping
from typing import Self

from barnabas.config.consumer_groups import ConsumerGroupConfig
from barnabas.config.setting import Config, Setting, Synonym, integer
from barnabas.config.validation import ConfigError, OutOfRange, at_least


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

    def __init__(self, overrides: Mapping[str, str], broker: ConsumerGroupConfig) -> None:
        """A value out of the broker's range, which may have changed since it was set, counts as its nearest end."""
        self._fill(overrides, lambda setting: broker.value(setting.synonyms[0].name), "group")
        for setting in self.SETTINGS.values():
            least, most = range_of(setting, broker)
            value = self.value(setting.name)
            object.__setattr__(self, setting.attribute, min(max(value, least), most))

    @classmethod
    def checked(cls, overrides: Mapping[str, str], broker: ConsumerGroupConfig) -> Self:
        """For values that someone asks for now: refuses what is out of range, and what does not fit together."""
        config = cls(overrides, broker)
        for name, text in overrides.items():
            setting = cls.SETTINGS[name]
            least, most = range_of(setting, broker)
            if not least <= setting.decode(text) <= most:
                raise OutOfRange(f"{name}: {text!r} is not allowed; it must be between {least} and {most}")
        if config.consumer_session_timeout_ms <= config.consumer_heartbeat_interval_ms:
            raise ConfigError(
                f"consumer.session.timeout.ms: {config.consumer_session_timeout_ms} is not allowed; it must be more "
                f"than consumer.heartbeat.interval.ms, {config.consumer_heartbeat_interval_ms}"
            )
        return config


def range_of(setting: Setting, broker: ConsumerGroupConfig) -> tuple[int, int]:
    """What the broker allows for single groups."""
    kind = setting.name.removeprefix("consumer.")
    return broker.value(f"group.consumer.min.{kind}"), broker.value(f"group.consumer.max.{kind}")
