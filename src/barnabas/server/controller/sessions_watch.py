"""Sees that brokers which fell silent are fenced: one timer for the session that ends next.

Only the active controller watches. A heartbeat's connection stands for the broker that sent it: when it ends, the
broker is dialled. Where that is refused, its process is dead, and its session is over. Any other answer, or none,
leaves the session as it is: the broker may live and act as leader until its lease ends (`controller.broker_lease`).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from barnabas.controller.broker_sessions import BrokerSessions
from barnabas.metadata.image import MetadataImage
from barnabas.runtime.interfaces import Address, Clock, Timer
from barnabas.server.supervisor import OnFailure, Supervisor, is_running
from barnabas.types import BrokerId

logger = logging.getLogger(__name__)

GRACE_MS = 1  # a session ends after its deadline, not at it


class SessionsWatch:
    """`fence_one` decides about the next expired session, and says whether it fenced somebody. `is_gone` dials a broker
    and says whether that was refused; then `on_gone` is told."""

    def __init__(
        self,
        *,
        sessions: BrokerSessions,
        clock: Clock,
        supervisor: Supervisor,
        fence_one: Callable[[], Awaitable[BrokerId | None]],
        is_gone: Callable[[BrokerId], Awaitable[bool]],
        on_gone: Callable[[BrokerId], None],
    ) -> None:
        self._sessions = sessions
        self._clock = clock
        self._supervisor = supervisor
        self._fence_one = fence_one
        self._is_gone = is_gone
        self._on_gone = on_gone
        self._is_active = False
        self._timer: Timer | None = None
        self._task: asyncio.Task[None] | None = None
        self._connections: dict[BrokerId, Address] = {}  # on which each was heard last; an earlier one says nothing
        self._dials: dict[asyncio.Task[None], None] = {}

    def begin(self, image: MetadataImage, *, own_id: BrokerId, former_id: BrokerId) -> None:
        """This node's controller became the active one, perhaps because the former one is gone."""
        self._is_active = True
        self._sessions.begin(image, self._clock.monotonic_ms(), former_id)
        self._sessions.end(own_id)  # should an earlier life of this very node be registered, it is over for certain
        self._dial_soon(former_id)
        self._set_timer()

    def end(self) -> None:
        self._is_active = False
        self._connections.clear()
        for dial in self._dials:
            dial.cancel()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def heard(self, broker_id: BrokerId, peer_address: Address) -> None:
        """A heartbeat with the broker's present epoch came on this connection. Any other must not be told here: what
        ends with its connection would be the session of a broker that never used it."""
        self._connections[broker_id] = peer_address
        self._set_timer()

    def connection_closed(self, peer_address: Address) -> None:
        for broker_id in [id for id, address in self._connections.items() if address == peer_address]:
            del self._connections[broker_id]
            self._sessions.connection_lost(broker_id)
            self._dial_soon(broker_id)
            self._set_timer()

    def _dial_soon(self, broker_id: BrokerId) -> None:
        name = f"dialling broker {broker_id}"
        dial = self._supervisor.start(name, lambda: self._dial(broker_id), OnFailure.ABANDON)
        self._dials[dial] = None
        dial.add_done_callback(self._dials.pop)

    async def _dial(self, broker_id: BrokerId) -> None:
        if await self._is_gone(broker_id) and self._is_active:
            self._sessions.gone(broker_id, self._clock.monotonic_ms())
            self._set_timer()
            self._on_gone(broker_id)

    def _set_timer(self) -> None:
        """A later deadline needs no new timer: an early look finds nobody, and sets the next."""
        deadline_ms = self._sessions.next_deadline_ms()
        if not self._is_active or deadline_ms is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        delay_ms = max(0.0, deadline_ms - self._clock.monotonic_ms()) + GRACE_MS
        self._timer = self._clock.call_later(delay_ms, self._look)

    def _look(self) -> None:
        self._timer = None
        if not is_running(self._task):
            self._task = self._supervisor.start("fencing", self._fence, OnFailure.RETRY)

    async def _fence(self) -> None:
        while self._is_active:
            fenced = await self._fence_one()
            if fenced is None:
                break
            logger.warning("broker %d is fenced: nothing was heard of it for too long", fenced)
        self._set_timer()
