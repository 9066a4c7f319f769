"""The settings that groups and their offsets obey, as plain numbers."""

from typing import NamedTuple


class GroupSettings(NamedTuple):
    session_timeout_ms_min: int = 6_000
    session_timeout_ms_max: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    size_max: int = 2_147_483_647  # members of one classic group
    groups_max: int = 100_000  # groups of one broker
    offset_metadata_bytes_max: int = 4_096
    offsets_retention_ms: int = 604_800_000
    offsets_retention_check_interval_ms: int = 600_000
