"""EndTxn, versions 0 to 5: commits or aborts a transaction. The answer leaves once the decision is committed; the
markers are written after it. From version 5 on the producer is of transaction version 2: its epoch rises with each
transaction, and the answer holds the next one (KIP-890)."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from barnabas.server.context import RequestContext
from barnabas.server.coordinators.transaction_errors import told_to_client
from barnabas.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

FENCED_SINCE_VERSION = 2
EPOCH_BUMP_SINCE_VERSION = 5


def handle(
    broker: Broker, context: RequestContext, request: EndTxnRequest
) -> EndTxnResponse | Awaitable[EndTxnResponse]:
    if broker.producer_ids.has_any:
        return _end(broker, context, request)
    return _end_with_ids(broker, context, request)


async def _end_with_ids(broker: Broker, context: RequestContext, request: EndTxnRequest) -> EndTxnResponse:
    """A producer whose epochs run out gets a new id: there must be one at hand."""
    await broker.producer_ids.refill()
    ended = _end(broker, context, request)
    return ended if isinstance(ended, EndTxnResponse) else await ended


def _end(broker: Broker, context: RequestContext, request: EndTxnRequest) -> EndTxnResponse | Awaitable[EndTxnResponse]:
    def failed(error: ErrorCode) -> EndTxnResponse:
        told = told_to_client(error, context.api_version, FENCED_SINCE_VERSION)
        return EndTxnResponse(error_code=told, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)

    if not request.transactional_id:
        return failed(ErrorCode.INVALID_REQUEST)
    client_version = 2 if context.api_version >= EPOCH_BUMP_SINCE_VERSION else 0
    return broker.transactions.submit(
        request.transactional_id,
        lambda shard, pending, now: shard.end(request, client_version, pending, now),
        failed,
    )
