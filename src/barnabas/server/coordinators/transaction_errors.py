"""What a producer is told of a refusal by the transaction coordinator: old ones do not know every word."""

from barnabas.errors import ErrorCode

_UNREACHABLE = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


def told_to_client(error: ErrorCode, version: int, fenced_since_version: int) -> ErrorCode:
    """PRODUCER_FENCED came late to each API; before it there was INVALID_PRODUCER_EPOCH (KIP-588)."""
    if error == ErrorCode.PRODUCER_FENCED and version < fenced_since_version:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


def told_to_writer(error: ErrorCode, *, unreachable: ErrorCode, knows_abortable: bool, adds: bool) -> ErrorCode:
    """Why records are not written whose transaction the coordinator does not confirm.

    `unreachable` is an error that makes old clients try again; a coordinator's own would only confuse them.
    """
    if error in _UNREACHABLE or (error == ErrorCode.CONCURRENT_TRANSACTIONS and not adds):
        return unreachable
    if error == ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error == ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return error
