"""The settings that groups and their offsets obey, as plain numbers."""

from typing import NamedTuple

from barnabas.config.coordinator import CoordinatorConfig

MINUTE_MS = 60_000
# Each costs a kilobyte or two. Kafka has no such limit; a client that invents group ids would fill the memory.
GROUPS_MAX = 100_000


class GroupSettings(NamedTuple):
    session_timeout_ms_min: int = 6_000
    session_timeout_ms_max: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    size_max: int = 2_147_483_647  # members of one classic group
    groups_max: int = GROUPS_MAX  # of one broker
    offset_metadata_bytes_max: int = 4_096
    offsets_retention_ms: int = 10_080 * MINUTE_MS
    offsets_retention_check_interval_ms: int = 600_000

    @classmethod
    def of(cls, config: CoordinatorConfig) -> "GroupSettings":
        return cls(
            session_timeout_ms_min=config.group_min_session_timeout_ms,
            session_timeout_ms_max=config.group_max_session_timeout_ms,
            initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            size_max=config.group_max_size,
            offset_metadata_bytes_max=config.offset_metadata_max_bytes,
            offsets_retention_ms=config.offsets_retention_minutes * MINUTE_MS,
            offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        )
