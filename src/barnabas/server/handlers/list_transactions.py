"""ListTransactions, versions 0 to 2: the transactional ids that this broker coordinates, by state and producer id; from
version 1 on by how long ago their transaction began, from version 2 on by a regular expression in RE2's syntax that the
whole id must match. An id without a transaction has gone on for ever, as in Kafka.

While a part of them is loaded, COORDINATOR_LOAD_IN_PROGRESS. Differs from Kafka: which script a character beyond ASCII
belongs to, as in `\\p{Greek}`, is told by its Unicode name, and a few characters differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from barnabas.server.context import RequestContext
from barnabas.transactions.state import NAMES, STATES_BY_NAME
from barnabas.transactions.transaction import Transaction

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

ANY_DURATION = -1


def handle(broker: Broker, context: RequestContext, request: ListTransactionsRequest) -> ListTransactionsResponse:
    for shard in broker.transactions.shards.values():
        if shard.error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return ListTransactionsResponse(error_code=shard.error)
    matches = _pattern(request.transactional_id_pattern)
    if matches is None:
        return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    states = [STATES_BY_NAME[name] for name in request.state_filters if name in STATES_BY_NAME]
    now_ms = broker.runtime.clock.now_ms()

    def is_wanted(transaction: Transaction) -> bool:
        if request.state_filters and transaction.state not in states:
            return False
        if request.producer_id_filters and transaction.producer_id not in request.producer_id_filters:
            return False
        if request.duration_filter >= 0 and now_ms - transaction.start_timestamp_ms <= request.duration_filter:
            return False
        return matches(transaction.transactional_id)

    return ListTransactionsResponse(
        unknown_state_filters=[name for name in request.state_filters if name not in STATES_BY_NAME],
        transaction_states=[
            TransactionState(
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                transaction_state=NAMES[each.state],
            )
            for each in _all(broker)
            if is_wanted(each)
        ],
    )


def _all(broker: Broker) -> Iterator[Transaction]:
    for shard in broker.transactions.shards.values():
        if shard.error == ErrorCode.NONE:
            yield from shard.shard.transactions.values()


def _pattern(pattern: str | None) -> Callable[[str], bool] | None:
    """None where it is none."""
    if not pattern:
        return lambda _transactional_id: True
    from barnabas.groups.regular_expressions import InvalidExpression, compile_expression

    try:
        return compile_expression(pattern).matches
    except InvalidExpression:
        return None
