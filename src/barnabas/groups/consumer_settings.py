"""The settings that consumer groups (KIP-848) obey, as plain numbers."""

from enum import Enum
from typing import NamedTuple

from barnabas.config.consumer_groups import ConsumerGroupConfig
from barnabas.config.group import GroupConfig
from barnabas.groups.assignors import ASSIGNORS


class MigrationPolicy(Enum):
    """Whether a group with members may change its protocol. Kafka's words."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def upgrades(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def downgrades(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


class ConsumerSettings(NamedTuple):
    """The first three can be set for single groups."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000  # between two target assignments of a group, at least
    size_max: int = 2_147_483_647  # members of one group
    assignors: tuple[str, ...] = tuple(ASSIGNORS)  # the first is that of groups whose members ask for none
    migration: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL

    @classmethod
    def of(cls, config: ConsumerGroupConfig) -> "ConsumerSettings":
        settings = cls(
            size_max=config.group_consumer_max_size,
            assignors=config.group_consumer_assignors,
            migration=MigrationPolicy(config.group_consumer_migration_policy),
        )
        return settings.for_group(GroupConfig({}, config))

    def for_group(self, config: GroupConfig) -> "ConsumerSettings":
        return self._replace(
            session_timeout_ms=config.consumer_session_timeout_ms,
            heartbeat_interval_ms=config.consumer_heartbeat_interval_ms,
            assignment_interval_ms=config.consumer_assignment_interval_ms,
        )
