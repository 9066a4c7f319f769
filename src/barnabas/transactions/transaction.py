"""One transactional id: who its producer is, and how far its transaction has come.

Always holds: an instance never changes; each step makes the next one, and only from a state that may come before it.
`last_producer_epoch` is known to the coordinator that gave the epoch, and not to the next: it is in no record.
Does not know: who asks, where partitions are, what is committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from barnabas.coordination.records import CoordinatorRecord, RecordTypes
from barnabas.protocol.message import DecodeError
from barnabas.protocol.messages.transaction_log_key import TransactionLogKey
from barnabas.protocol.messages.transaction_log_value import PartitionsSchema, TransactionLogValue
from barnabas.transactions.state import BEFORE, TransactionState
from barnabas.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP_MS, ProducerId, TopicPartition

PRODUCER_EPOCH_MAX = (1 << 15) - 1
TWO_PHASE_TIMEOUT_MS = (1 << 31) - 1  # of a transaction that an outside coordinator ends (KIP-939): it has no timeout
EPOCH_BUMP_VERSION = 2  # the transaction version from which on each end of a transaction raises the epoch
FLEXIBLE_VERSION = 1  # the transaction version from which on records have room for more

Partitions = Mapping[TopicPartition, None]  # a dict for its order; never changed in place
NO_PARTITIONS: Partitions = MappingProxyType({})

decode = RecordTypes({0: "transaction_log"}).decode


class Transaction(NamedTuple):
    transactional_id: str
    producer_id: ProducerId
    producer_epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: Partitions = NO_PARTITIONS
    start_timestamp_ms: int = NO_TIMESTAMP_MS
    last_update_timestamp_ms: int = NO_TIMESTAMP_MS
    previous_producer_id: ProducerId = NO_PRODUCER_ID  # before the last step; the same, unless that gave a new one
    next_producer_id: ProducerId = NO_PRODUCER_ID  # from the end of the markers on, where the epochs ran out
    client_version: int = 0  # the transaction version by which its producer works
    last_producer_epoch: int = NO_PRODUCER_EPOCH  # for which `producer_epoch` was given: who has it asks again

    @property
    def is_exhausted(self) -> bool:
        """No producer gets the last epoch: it is there to fence the one before it."""
        return self.producer_epoch >= PRODUCER_EPOCH_MAX - 1

    @property
    def is_two_phase(self) -> bool:
        return self.timeout_ms == TWO_PHASE_TIMEOUT_MS

    @property
    def raises_epochs(self) -> bool:
        return self.client_version >= EPOCH_BUMP_VERSION

    # Steps

    def _step(self, state: TransactionState, now_ms: int) -> Transaction:
        assert self.state in BEFORE[state], f"{self.transactional_id}: {self.state.name} before {state.name}"
        return self._replace(state=state, last_update_timestamp_ms=now_ms, previous_producer_id=self.producer_id)

    def initialized(self, *, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int) -> Transaction:
        return self._step(TransactionState.EMPTY, now_ms)._replace(
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            timeout_ms=timeout_ms,
            partitions=NO_PARTITIONS,
            start_timestamp_ms=NO_TIMESTAMP_MS,
        )

    def rotated(self, producer_id: ProducerId, *, last_epoch: int, timeout_ms: int, now_ms: int) -> Transaction:
        """Its epochs are used up: the producer goes on under another id."""
        step = self.initialized(epoch=0, last_epoch=last_epoch, timeout_ms=timeout_ms, now_ms=now_ms)
        return step._replace(producer_id=producer_id)

    def added(self, partitions: Iterable[TopicPartition], *, client_version: int, now_ms: int) -> Transaction:
        begins = self.state is not TransactionState.ONGOING
        return self._step(TransactionState.ONGOING, now_ms)._replace(
            partitions={**self.partitions, **dict.fromkeys(partitions)},
            start_timestamp_ms=now_ms if begins else self.start_timestamp_ms,
            client_version=client_version,
        )

    def prepared(
        self, *, committed: bool, client_version: int, next_producer_id: ProducerId, now_ms: int
    ) -> Transaction:
        """Its markers may be written from now on. From transaction version 2 on under the next epoch (KIP-890)."""
        state = TransactionState.PREPARE_COMMIT if committed else TransactionState.PREPARE_ABORT
        begins = self.state is not TransactionState.ONGOING
        step = self._step(state, now_ms)._replace(
            client_version=client_version,
            next_producer_id=next_producer_id,
            start_timestamp_ms=now_ms if begins else self.start_timestamp_ms,
        )
        return step._fenced() if step.raises_epochs else step

    def _fenced(self) -> Transaction:
        epoch = min(self.producer_epoch + 1, PRODUCER_EPOCH_MAX)
        return self._replace(producer_epoch=epoch, last_producer_epoch=self.producer_epoch)

    def fenced(self, *, server_version: int, now_ms: int) -> Transaction:
        """Aborted by the coordinator, under an epoch that its producer does not have."""
        step = self.prepared(
            committed=False, client_version=server_version, next_producer_id=NO_PRODUCER_ID, now_ms=now_ms
        )
        return step if step.raises_epochs else step._fenced()._replace(last_producer_epoch=NO_PRODUCER_EPOCH)

    def completed(self, now_ms: int) -> Transaction:
        committed = self.state is TransactionState.PREPARE_COMMIT
        state = TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT
        step = self._step(state, now_ms)._replace(partitions=NO_PARTITIONS, next_producer_id=NO_PRODUCER_ID)
        if self.raises_epochs and self.next_producer_id != NO_PRODUCER_ID:
            return step._replace(producer_id=self.next_producer_id, producer_epoch=0)
        return step

    # In the log

    def record(self, server_version: int) -> CoordinatorRecord:
        """As Kafka writes it at this transaction version of the cluster."""
        topics: dict[str, list[int]] = {}
        for topic, partition in self.partitions:
            topics.setdefault(topic, []).append(partition)
        is_empty = self.state is TransactionState.EMPTY
        schemas = [PartitionsSchema(topic=topic, partition_ids=indexes) for topic, indexes in topics.items()]
        value = TransactionLogValue(
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            transaction_timeout_ms=self.timeout_ms,
            transaction_status=self.state,
            transaction_partitions=None if is_empty else schemas,
            transaction_last_update_timestamp_ms=self.last_update_timestamp_ms,
            transaction_start_timestamp_ms=self.start_timestamp_ms,
        )
        version = 0
        if server_version >= FLEXIBLE_VERSION:
            version = 1
            value.previous_producer_id = self.previous_producer_id
            value.next_producer_id = self.next_producer_id
            value.client_transaction_version = self.client_version
        return CoordinatorRecord(TransactionLogKey(transactional_id=self.transactional_id), value, version)


def tombstone(transactional_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(TransactionLogKey(transactional_id=transactional_id), None)


def from_record(record: CoordinatorRecord) -> tuple[str, Transaction | None]:
    """The id, and what the record says of it; None where it was forgotten."""
    key, value = record.key, record.value
    assert isinstance(key, TransactionLogKey)
    if value is None:
        return key.transactional_id, None
    assert isinstance(value, TransactionLogValue)
    try:
        state = TransactionState(value.transaction_status)
    except ValueError:
        raise DecodeError(f"a transaction in state {value.transaction_status}") from None
    return key.transactional_id, Transaction(
        transactional_id=key.transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        partitions={
            TopicPartition(schema.topic, index): None
            for schema in value.transaction_partitions or ()
            for index in schema.partition_ids
        },
        start_timestamp_ms=value.transaction_start_timestamp_ms,
        last_update_timestamp_ms=value.transaction_last_update_timestamp_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        client_version=value.client_transaction_version,
    )
