"""The markers that end a transaction: what the coordinator has others write, once its decision is committed."""

from typing import NamedTuple

from barnabas.transactions.state import TransactionState
from barnabas.transactions.transaction import Partitions, Transaction
from barnabas.types import ProducerId


class Markers(NamedTuple):
    """One transaction's. The coordinator's decision, and therefore the same however often they are sent."""

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: int
    committed: bool
    partitions: Partitions
    transaction_version: int

    def are_of(self, transaction: Transaction) -> bool:
        """Whether it is these that the transaction waits for."""
        return markers_of(transaction) == self


def markers_of(transaction: Transaction) -> Markers | None:
    """None where it does not end just now."""
    if transaction.state not in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT):
        return None
    return Markers(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        committed=transaction.state is TransactionState.PREPARE_COMMIT,
        partitions=transaction.partitions,
        transaction_version=transaction.client_version,
    )
