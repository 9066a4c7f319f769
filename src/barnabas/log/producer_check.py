"""Whether a producer may append a batch: by its epoch and sequence, or by the epoch of whoever writes a marker.

Always holds: checking changes nothing that is written down; what a restart has forgotten of a producer's last batches
is read again from the log before one of them is called out of order. Does not know: files, what else may be wrong.
"""

from collections.abc import Sequence

from barnabas.errors import ErrorCode
from barnabas.log.append import AppendInfo, AppendOrigin
from barnabas.log.producer_replay import marker_in, recall
from barnabas.log.producer_state import ACCEPTED, ProducerStates
from barnabas.log.segment import Segment
from barnabas.protocol.record_batch import CONTROL_BIT, BatchHeader
from barnabas.types import Offset


def check_producer(
    producers: ProducerStates,
    segments: Sequence[Segment],
    batch: memoryview,
    header: BatchHeader,
    origin: AppendOrigin,
    log_start_offset: Offset,
) -> AppendInfo | None:
    """None where the batch may be appended, else the answer to it.  # benchmarks/log_append.py"""
    if header.attributes & CONTROL_BIT:
        marker = marker_in(batch)
        error = ErrorCode.NONE if marker is None else producers.check_marker(header, marker)
        return AppendInfo.failed(error) if error else None
    verdict = producers.check(header, sequenced=origin is AppendOrigin.CLIENT)
    if verdict is ACCEPTED:
        return None
    error, repeated = verdict
    if error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
        state = producers.get(header.producer_id)
        if state is not None and state.is_partial:
            recall(state, segments)
            error, repeated = producers.check(header)
    if repeated is not None:
        base_offset, end_offset, time_ms = repeated.base_offset, repeated.last_offset + 1, repeated.timestamp_ms
        return AppendInfo(ErrorCode.NONE, base_offset, end_offset, time_ms, log_start_offset, duplicate=True)
    return AppendInfo.failed(error) if error else None
