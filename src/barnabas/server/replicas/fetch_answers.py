"""What Fetch answers about a partition of which nothing can be given."""

from barnabas.errors import ErrorCode
from barnabas.log.log import Log
from barnabas.protocol.messages.fetch import EpochEndOffset, PartitionData
from barnabas.types import NO_LEADER_EPOCH, LeaderEpoch, Offset


def fetch_failed(partition_index: int, error: ErrorCode) -> PartitionData:
    return PartitionData(
        partition_index=partition_index,
        error_code=error,
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        records=b"",
    )


def diverging_epoch(log: Log, last_fetched_epoch: LeaderEpoch, fetch_offset: Offset) -> EpochEndOffset | None:
    """Where the reader's log and this one part, if they do (KIP-595); both are -1 where this one does not know."""
    if last_fetched_epoch == NO_LEADER_EPOCH:
        return None
    epoch, end_offset = log.end_offset_for_epoch(last_fetched_epoch)
    if epoch < last_fetched_epoch or end_offset < fetch_offset:
        return EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return None
