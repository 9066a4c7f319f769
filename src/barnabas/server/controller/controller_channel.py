"""The way to the active controller, wherever it is: a call within this node, or a request to another one.

Always holds: a request goes to whom this node believes to be the controller now. Who is wrong about that is told
NOT_CONTROLLER, and asks again when it has heard more. A client need not know that controllers come and go: what it
asks for waits until there is one, and is asked of the next one where the answer was lost, or came from the wrong node.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
from typing import TYPE_CHECKING, Any

from barnabas.client.connection import ConnectionLost
from barnabas.errors import ErrorCode
from barnabas.protocol import apis
from barnabas.protocol.message import Message, Structure
from barnabas.server.context import CloseConnection, ListenerKind, RequestContext
from barnabas.types import NO_LEADER

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

WITHIN = ("within", 0)  # the address of a caller that is this node itself
REQUEST_TIMEOUT_MS = 30_000  # Kafka's request.timeout.ms: a topic of thousands of partitions takes its time
FORWARD_MS_MAX = 60_000  # as long as Kafka tries; clients give up before
FORWARD_PURPOSE = "forward"
RETRY_MS = 50  # while there is no controller, unless there is news of it before


class ControllerChannel:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def request(
        self,
        message: Message,
        purpose: str,
        version: int | None = None,
        timeout_ms: float = REQUEST_TIMEOUT_MS,
    ) -> Any:
        """ConnectionLost where there is no controller, or where it did not answer in time."""
        leader_id = self._broker.controller.quorum.leader_id
        if leader_id == NO_LEADER:
            raise ConnectionLost("no controller is known")
        if leader_id != self._broker.node_id:
            return await self._broker.peers.get(leader_id, purpose).request(message, timeout_ms, version)
        return await self._within(message, version)

    async def forward(self, context: RequestContext, message: Message) -> Any:
        """For a client, in the version in which it asked. CloseConnection where nobody answers."""
        clock = self._broker.runtime.clock
        # Another node that took this one for the controller hears at once that it is not, and looks for the right one.
        wait_ms = 0 if context.listener is ListenerKind.CONTROLLERS else FORWARD_MS_MAX
        deadline_ms = clock.monotonic_ms() + wait_ms
        while True:
            try:
                answer = await self.request(message, FORWARD_PURPOSE, context.api_version)
                if not _is_refused(answer) or clock.monotonic_ms() >= deadline_ms:
                    return answer
            except ConnectionLost as error:
                if clock.monotonic_ms() >= deadline_ms:
                    raise CloseConnection(f"the controller cannot be reached: {error}") from error
            await asyncio.wait([self._broker.controller.quorum.news()], timeout=RETRY_MS / 1000)

    async def _within(self, message: Message, version: int | None) -> Any:
        from barnabas.server.dispatch import HANDLERS

        key = apis.ApiKey(type(message).API_KEY)
        context = RequestContext(
            api_key=key,
            api_version=apis.api(key).max_stable_version if version is None else version,
            correlation_id=0,
            client_id=None,
            listener=ListenerKind.CONTROLLERS,
            local_address=WITHIN,
            peer_address=WITHIN,
        )
        handler = importlib.import_module(f"barnabas.server.handlers.{HANDLERS[key]}")
        response = handler.handle(self._broker, context, message)
        return await response if inspect.isawaitable(response) else response


def _is_refused(answer: Structure) -> bool:
    """Whether a node that is not the controller gave it. It says so of everything that was asked, so of the first."""
    if getattr(answer, "error_code", ErrorCode.NONE) == ErrorCode.NOT_CONTROLLER:
        return True
    fields = (getattr(answer, name) for name in answer.__slots__)
    firsts = (field[0] for field in fields if isinstance(field, list) and field)
    return any(isinstance(each, Structure) and _is_refused(each) for each in firsts)
