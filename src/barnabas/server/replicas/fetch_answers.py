"""What Fetch answers about a partition of which nothing can be given."""

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.fetch import PartitionData


def fetch_failed(partition_index: int, error: ErrorCode) -> PartitionData:
    return PartitionData(
        partition_index=partition_index,
        error_code=error,
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        records=b"",
    )
