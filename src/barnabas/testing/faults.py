"""Faults that a test asks for, as they stand between clients and a broker's handlers (`server.dispatch.Around`).

Always holds: one set of faults serves all brokers of a cluster, so that «the next request» is the next to any of them;
brokers among themselves are spared. A fault that was told to happen so many times happens no more often.
Called from the threads of all brokers and of the test.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from barnabas.errors import ErrorCode
from barnabas.protocol.apis import ApiKey
from barnabas.protocol.message import Message
from barnabas.server.broker import TO_BROKERS
from barnabas.server.context import CloseConnection, ListenerKind, RequestContext
from barnabas.server.dispatch import Handler, served_on
from barnabas.testing.refusals import TOPIC_LISTS, Answer, Refusal, names_topic

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


@dataclass(frozen=True, slots=True)
class Fail:
    code: ErrorCode


@dataclass(frozen=True, slots=True)
class Drop:
    after: bool


@dataclass(frozen=True, slots=True)
class Delay:
    ms: float
    after: bool


@dataclass(frozen=True, slots=True)
class Watch:
    """Nothing goes wrong; it is only counted."""


Action = Fail | Drop | Delay | Watch


@dataclass(slots=True, kw_only=True)
class Fault:
    action: Action
    api: ApiKey | None  # None: whatever is asked
    topic: str | None  # None: whatever it is about
    broker: int | None  # None: whoever is asked
    times_left: int | None  # None: until it is taken back
    hits: int = 0

    def concerns(self, key: ApiKey, broker: Broker, request: Message) -> bool:
        return (
            self.times_left != 0
            and self.api in (None, key)
            and self.broker in (None, broker.node_id)
            and (self.topic is None or (key in TOPIC_LISTS and names_topic(key, broker, request, self.topic)))
        )


class Faults:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: dict[int, Fault] = {}  # in the order in which they were asked for
        self._number = 0

    def add(self, fault: Fault) -> int:
        if fault.topic is not None and fault.api is not None and fault.api not in TOPIC_LISTS:
            raise ValueError(f"{fault.api.name} names no topics, so `topic` has no meaning for it")
        with self._lock:
            self._number += 1
            self._faults[self._number] = fault
            return self._number

    def remove(self, number: int) -> None:
        """It happens no more; how often it did can still be asked."""
        with self._lock:
            self._faults[number].times_left = 0

    def clear(self) -> None:
        with self._lock:
            for fault in self._faults.values():
                fault.times_left = 0

    def hits(self, number: int) -> int:
        return self._faults[number].hits

    def around(self, key: ApiKey, handle: Handler) -> Handler:
        def faulty(broker: Broker, context: RequestContext, request: Any) -> Answer:
            if not self._faults or context.listener is not ListenerKind.BROKERS or _comes_from_a_broker(context):
                return handle(broker, context, request)
            instead = handle
            for fault in reversed(self._take(key, broker, request)):
                instead = _instead(fault, key, instead)
            return instead(broker, context, request)

        return faulty

    def _take(self, key: ApiKey, broker: Broker, request: Message) -> list[Fault]:
        """All delays and watches that concern the request, and the first of what ends it."""
        taken: list[Fault] = []
        with self._lock:
            for fault in self._faults.values():
                is_too_late = _ends(fault) and any(_ends(each) for each in taken)
                if is_too_late or not fault.concerns(key, broker, request):
                    continue
                if fault.times_left is not None:
                    fault.times_left -= 1
                fault.hits += 1
                taken.append(fault)
        return taken


def _ends(fault: Fault) -> bool:
    return isinstance(fault.action, Fail | Drop)


def _comes_from_a_broker(context: RequestContext) -> bool:
    name, _hyphen, purpose = (context.client_id or "").removeprefix("barnabas-").partition("-")
    return name.isdecimal() and purpose in TO_BROKERS


def _instead(fault: Fault, key: ApiKey, handle: Handler) -> Handler:
    match fault.action:
        case Fail(code=code):
            return Refusal(key, code, fault.topic, handle).answer
        case Drop(after=after):
            return _dropping(handle, after=after)
        case Delay(ms=ms, after=after):
            return _delaying(handle, ms, after=after)
        case Watch():
            return handle


def _dropping(handle: Handler, *, after: bool) -> Handler:
    drop = CloseConnection("a test asked for it")

    async def finish(answered: Awaitable[Message]) -> Message:
        await answered
        raise drop

    def dropping(broker: Broker, context: RequestContext, request: Any) -> Answer:
        answered = handle(broker, context, request) if after else None
        if inspect.isawaitable(answered):
            return finish(answered)
        raise drop

    return dropping


def _delaying(handle: Handler, ms: float, *, after: bool) -> Handler:
    async def delayed(broker: Broker, context: RequestContext, request: Any, answered: Answer) -> Any:
        if after:
            answered = await answered if inspect.isawaitable(answered) else answered
            await asyncio.sleep(ms / 1000)
            return answered
        await asyncio.sleep(ms / 1000)
        answered = handle(broker, context, request)
        return await answered if inspect.isawaitable(answered) else answered

    def delaying(broker: Broker, context: RequestContext, request: Any) -> Answer:
        if not after:
            _keep_records(request)
        return delayed(broker, context, request, handle(broker, context, request) if after else None)

    return delaying


def _keep_records(request: Any) -> None:
    """Records are a view of the receive buffer, which is used again when the handler first awaits."""
    for topic in getattr(request, "topic_data", ()):
        for data in topic.partition_data:
            if data.records is not None:
                data.records = memoryview(bytes(data.records))


# What people write


def api_named(api: str | int) -> ApiKey:
    """`Produce`, `PRODUCE`, `list_offsets`, `ListOffsets` or 2."""
    served = served_on(ListenerKind.BROKERS)
    if isinstance(api, int):
        if api in served:
            return ApiKey(api)
        raise ValueError(f"no API has the key {api}")
    names = {_plain(key.name): key for key in served}
    if _plain(api) not in names:
        raise ValueError(f"no API is called {api!r}{_closest(api, names)}")
    return names[_plain(api)]


def error_named(error: str | int) -> ErrorCode:
    if isinstance(error, int):
        return ErrorCode(error)
    names = {_plain(code.name): code for code in ErrorCode}
    if _plain(error) not in names:
        raise ValueError(f"no error is called {error!r}{_closest(error, names)}")
    return names[_plain(error)]


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _closest(name: str, names: dict[str, Any]) -> str:
    found = get_close_matches(_plain(name), names, n=1)
    return f"; did you mean {names[found[0]].name}?" if found else ""
