"""The producer ids of this broker: a block from the controller at a time, given out one by one.

Always holds: an id is given out once. What is left of a block when the broker stops is lost, which is what keeps it
unique. Of many that wait for a new block only one asks for it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from barnabas.client.connection import ConnectionLost
from barnabas.errors import ErrorCode
from barnabas.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from barnabas.types import ProducerId

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

PURPOSE = "controller"


class ProducerIds:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._next: ProducerId = 0
        self._end: ProducerId = 0  # the first one beyond the block
        self._asking: asyncio.Task[ErrorCode] | None = None

    def take(self) -> ProducerId | None:
        """The next id, or None where a new block is needed first."""
        if self._next == self._end:
            return None
        taken = self._next
        self._next += 1
        return taken

    @property
    def has_any(self) -> bool:
        """Whether `take` gives one."""
        return self._next != self._end

    async def next(self) -> ProducerId | ErrorCode:
        while True:
            taken = self.take()
            if taken is not None:
                return taken
            error = await self.refill()
            if error != ErrorCode.NONE:
                return error

    async def refill(self) -> ErrorCode:
        """A new block, where none is left."""
        if self.has_any:
            return ErrorCode.NONE
        if self._asking is None:
            self._asking = self._broker.supervisor.awaited("producer ids", self._ask())
        return await asyncio.shield(self._asking)

    async def _ask(self) -> ErrorCode:
        request = AllocateProducerIdsRequest(broker_id=self._broker.node_id, broker_epoch=self._broker.lifecycle.epoch)
        try:
            answer = await self._broker.controller_channel.request(request, PURPOSE)
        except ConnectionLost:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        finally:
            self._asking = None
        if answer.error_code != ErrorCode.NONE:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        self._take_block(answer.producer_id_start, answer.producer_id_start + answer.producer_id_len)
        return ErrorCode.NONE

    def _take_block(self, first: ProducerId, end: ProducerId) -> None:
        assert self._next == self._end
        assert first >= self._end, "a block is given out twice"
        self._next, self._end = first, end
