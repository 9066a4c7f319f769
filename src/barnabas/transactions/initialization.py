"""InitProducerId of a transactional producer: the epoch that fences all others who have the same id.

    nothing known       a new producer id, epoch 0
    at rest             the next epoch; a new producer id where the epochs have run out
    ongoing             aborted under an epoch that nobody has; the producer asks again until that is done
    ending              the producer asks again

Always holds: a producer that names its id and epoch (KIP-360) is let through only if no other has come since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.coordination.outcome import Moment, Outcome, Pending, Producer, answer
from barnabas.errors import ErrorCode
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.transactions.settings import TransactionSettings
from barnabas.transactions.state import AT_REST, PREPARED
from barnabas.transactions.transaction import PRODUCER_EPOCH_MAX, TWO_PHASE_TIMEOUT_MS, Transaction
from barnabas.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

if TYPE_CHECKING:
    from barnabas.transactions.shard import TransactionShard


class _Epochs(NamedTuple):
    epoch: int
    last_epoch: int  # who has this one, asks for the same once more


def decide(shard: TransactionShard, request: InitProducerIdRequest, pending: Pending, now: Moment) -> Outcome:
    transactional_id = request.transactional_id
    assert transactional_id
    timeout_ms = _timeout_ms(request, shard.surroundings.settings)
    if isinstance(timeout_ms, ErrorCode):
        return answer(pending, timeout_ms)
    known = shard.transactions.get(transactional_id)
    if known is None:
        return _create(shard, transactional_id, timeout_ms, pending, now)
    expected = None
    if request.producer_id != NO_PRODUCER_ID:
        expected = Producer(request.producer_id, request.producer_epoch)
        if not _is_of(known, expected):
            return answer(pending, ErrorCode.PRODUCER_FENCED)
    if known.state in PREPARED:
        return answer(pending, ErrorCode.CONCURRENT_TRANSACTIONS)
    if known.state not in AT_REST:
        fenced = known.fenced(server_version=shard.surroundings.transaction_version, now_ms=now.wall_ms)
        return shard.step(fenced, pending, ErrorCode.CONCURRENT_TRANSACTIONS)
    return _raise(shard, known, expected, timeout_ms, pending, now)


def _timeout_ms(request: InitProducerIdRequest, settings: TransactionSettings) -> int | ErrorCode:
    """None at all, whatever is asked for, where an outside coordinator ends the transaction (KIP-939)."""
    if request.enable2_pc and not settings.has_two_phases:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if request.keep_prepared_txn:
        return ErrorCode.UNSUPPORTED_VERSION  # as Kafka, which has the word and nothing behind it
    if request.enable2_pc:
        return TWO_PHASE_TIMEOUT_MS
    timeout_ms = request.transaction_timeout_ms
    return timeout_ms if 0 < timeout_ms <= settings.timeout_ms_max else ErrorCode.INVALID_TRANSACTION_TIMEOUT


def _create(shard: TransactionShard, transactional_id: str, timeout_ms: int, pending: Pending, now: Moment) -> Outcome:
    if not shard.surroundings.has_room:
        return answer(pending, ErrorCode.POLICY_VIOLATION)
    producer_id = shard.surroundings.take_producer_id()
    if producer_id is None:
        return answer(pending, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    created = Transaction(
        transactional_id=transactional_id, producer_id=producer_id, producer_epoch=NO_PRODUCER_EPOCH, timeout_ms=0
    )
    first = created.initialized(epoch=0, last_epoch=NO_PRODUCER_EPOCH, timeout_ms=timeout_ms, now_ms=now.wall_ms)
    return _given(shard, first, pending)


def _is_of(known: Transaction, expected: Producer) -> bool:
    """The id of now, or the one before whose epochs ran out: then the answer that gave the new one may be lost."""
    if expected.id == known.producer_id:
        return True
    return expected.id == known.previous_producer_id and expected.epoch >= PRODUCER_EPOCH_MAX - 1


def _raise(
    shard: TransactionShard,
    known: Transaction,
    expected: Producer | None,
    timeout_ms: int,
    pending: Pending,
    now: Moment,
) -> Outcome:
    if known.is_exhausted and (expected is None or expected.epoch == known.producer_epoch):
        producer_id = shard.surroundings.take_producer_id()
        if producer_id is None:
            return answer(pending, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        last_epoch = NO_PRODUCER_EPOCH if expected is None else known.producer_epoch
        rotated = known.rotated(producer_id, last_epoch=last_epoch, timeout_ms=timeout_ms, now_ms=now.wall_ms)
        return _given(shard, rotated, pending)
    epochs = _next_epochs(known, expected)
    if epochs is None:
        return answer(pending, ErrorCode.PRODUCER_FENCED)
    raised = known.initialized(
        epoch=epochs.epoch, last_epoch=epochs.last_epoch, timeout_ms=timeout_ms, now_ms=now.wall_ms
    )
    return _given(shard, raised, pending)


def _next_epochs(known: Transaction, expected: Producer | None) -> _Epochs | None:
    """None where another producer has come since the one that asks."""
    epoch = known.producer_epoch
    if expected is None:
        return _Epochs(epoch + 1, NO_PRODUCER_EPOCH)
    if expected.epoch == epoch:
        return _Epochs(epoch + 1, epoch)
    if expected.epoch == known.last_producer_epoch:
        return _Epochs(epoch, known.last_producer_epoch)  # the answer to its first request got lost
    return None


def _given(shard: TransactionShard, transaction: Transaction, pending: Pending) -> Outcome:
    given = InitProducerIdResponse(producer_id=transaction.producer_id, producer_epoch=transaction.producer_epoch)
    return shard.step(transaction, pending, given)
