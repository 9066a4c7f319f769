"""Offsets as applications see them: what a group has committed, what a moment maps to, and on whose behalf.

Plain values; nothing here decides or sends anything.
"""

from typing import NamedTuple

from barnabas.types import NO_LEADER_EPOCH, LeaderEpoch, Offset


class OffsetAndMetadata(NamedTuple):
    """The next offset to be read, as a group remembers it."""

    offset: Offset
    metadata: str = ""  # the application's own note
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH  # of the record before; lets a consumer find out what a crash took back


class OffsetAndTimestamp(NamedTuple):
    """The first record at or after a moment."""

    offset: Offset
    timestamp_ms: int
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH


class ConsumerGroupMetadata(NamedTuple):
    """Who commits: what a transaction passes on when it commits offsets, so that one thrown out cannot."""

    group_id: str
    generation_id: int = -1  # or the member epoch, in groups of the new protocol
    member_id: str = ""
    group_instance_id: str | None = None
