"""The producer ids of this broker: a block from the controller at a time, given out one by one.

Always holds: an id is given out once. What is left of a block when the broker stops is lost, which is what keeps it
unique. Of many that wait for a new block only one asks for it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from barnabas.controller import producer_ids
from barnabas.controller.decision import Refusal
from barnabas.controller.producer_ids import ProducerIdBlock
from barnabas.errors import ErrorCode
from barnabas.server.metadata_log import MetadataUnavailable
from barnabas.types import ProducerId

if TYPE_CHECKING:
    from barnabas.server.controller_service import ControllerService


class ProducerIds:
    def __init__(self, controller: ControllerService) -> None:
        self._controller = controller
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

    async def next(self) -> ProducerId | ErrorCode:
        while True:
            taken = self.take()
            if taken is not None:
                return taken
            if self._asking is None:
                self._asking = asyncio.ensure_future(self._ask())
            error = await asyncio.shield(self._asking)
            if error != ErrorCode.NONE:
                return error

    async def _ask(self) -> ErrorCode:
        controller = self._controller
        try:
            block = await controller.submit(
                lambda image, _offset: producer_ids.allocate(image, controller.node_id, controller.broker_epoch)
            )
        except MetadataUnavailable:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        finally:
            self._asking = None
        if isinstance(block, Refusal):
            return block.error
        self._take_block(block)
        return ErrorCode.NONE

    def _take_block(self, block: ProducerIdBlock) -> None:
        assert self._next == self._end
        assert block.first >= self._end, "a block is given out twice"
        self._next, self._end = block
