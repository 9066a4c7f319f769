"""The states of a transaction, which of them may follow which, and what ending one means in each: all as data.

    Empty → Ongoing → PrepareCommit → CompleteCommit → Ongoing → …
                    → PrepareAbort  → CompleteAbort  → …

Always holds: a record whose state may not follow the state before it is never written.
Does not know: producers, epochs, time.
"""

from collections.abc import Mapping
from enum import Enum, IntEnum
from types import MappingProxyType

from barnabas.errors import ErrorCode


class TransactionState(IntEnum):
    """The numbers stand in the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7  # Kafka has it in memory only; a fence is one step here


S = TransactionState

# Kafka's words, as DescribeTransactions and the filters of ListTransactions have them.
NAMES: Mapping[TransactionState, str] = MappingProxyType(
    {state: "".join(word.capitalize() for word in state.name.split("_")) for state in TransactionState}
)
STATES_BY_NAME: Mapping[str, TransactionState] = MappingProxyType({name: state for state, name in NAMES.items()})

# For each state those that may come before it.
BEFORE: Mapping[TransactionState, frozenset[TransactionState]] = MappingProxyType(
    {
        S.EMPTY: frozenset({S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT}),
        S.ONGOING: frozenset({S.EMPTY, S.ONGOING, S.COMPLETE_COMMIT, S.COMPLETE_ABORT}),
        S.PREPARE_COMMIT: frozenset({S.ONGOING}),
        # From the states at rest: a producer of transaction version 2 aborts where nothing was added (KIP-890).
        S.PREPARE_ABORT: frozenset({S.ONGOING, S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT}),
        S.COMPLETE_COMMIT: frozenset({S.PREPARE_COMMIT}),
        S.COMPLETE_ABORT: frozenset({S.PREPARE_ABORT}),
    }
)

# An id that is in one of these may be forgotten when it has been idle for long.
AT_REST = frozenset({S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT})
# Markers are on their way.
PREPARED = frozenset({S.PREPARE_COMMIT, S.PREPARE_ABORT})


class End(Enum):
    """What comes of a request to end a transaction that is not refused."""

    PREPARE = "prepare"  # write the state, then the markers
    PREPARE_NOTHING = "prepare nothing"  # likewise, where no partition was added
    REPEATED = "repeated"  # it has happened: answer as the first time


Verdict = End | ErrorCode
_INVALID = ErrorCode.INVALID_TXN_STATE
_WAIT = ErrorCode.CONCURRENT_TRANSACTIONS

# (state, committed) → what an EndTxn means that does not raise the epoch (below transaction version 2).
END_OLD: Mapping[tuple[TransactionState, bool], Verdict] = MappingProxyType(
    {
        (S.EMPTY, True): _INVALID,
        (S.EMPTY, False): _INVALID,
        (S.ONGOING, True): End.PREPARE,
        (S.ONGOING, False): End.PREPARE,
        (S.PREPARE_COMMIT, True): _WAIT,
        (S.PREPARE_COMMIT, False): _INVALID,
        (S.PREPARE_ABORT, True): _INVALID,
        (S.PREPARE_ABORT, False): _WAIT,
        (S.COMPLETE_COMMIT, True): End.REPEATED,
        (S.COMPLETE_COMMIT, False): _INVALID,
        (S.COMPLETE_ABORT, True): _INVALID,
        (S.COMPLETE_ABORT, False): End.REPEATED,
    }
)

# (state, committed, whether the epoch is that of the transaction before) → likewise, where each end raises the epoch
# (KIP-890). Combinations whose epoch cannot be right are refused before: PRODUCER_FENCED.
END: Mapping[tuple[TransactionState, bool, bool], Verdict] = MappingProxyType(
    {
        (S.EMPTY, True, False): _INVALID,
        (S.EMPTY, False, False): End.PREPARE_NOTHING,
        (S.ONGOING, True, False): End.PREPARE,
        (S.ONGOING, False, False): End.PREPARE,
        (S.PREPARE_COMMIT, True, True): _WAIT,
        (S.PREPARE_COMMIT, False, True): _INVALID,
        (S.PREPARE_ABORT, True, True): _INVALID,
        (S.PREPARE_ABORT, False, True): _WAIT,
        (S.COMPLETE_COMMIT, True, True): End.REPEATED,
        (S.COMPLETE_COMMIT, False, True): _INVALID,
        (S.COMPLETE_COMMIT, True, False): _INVALID,
        (S.COMPLETE_COMMIT, False, False): End.PREPARE_NOTHING,
        (S.COMPLETE_ABORT, True, True): _INVALID,
        (S.COMPLETE_ABORT, False, True): End.REPEATED,
        (S.COMPLETE_ABORT, True, False): _INVALID,
        (S.COMPLETE_ABORT, False, False): End.PREPARE_NOTHING,
    }
)
