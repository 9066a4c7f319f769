"""How an Admin asks: each question goes to whom it concerns, and again to whoever that is by then, until time is up.

Owns the client's beginning and end, and one loop for all calls about several things (`carry_out`): things are grouped
by the broker that is responsible for them, asked about at the same time, and those that failed for a reason that passes
are tried again. Always holds: a call ends within its time, and says of each thing, in the order of the question, what
became of it.
Does not know: any request but those that find out who is responsible.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import Any, TypeVar

from barnabas.client.admin.results import Results, failed_all
from barnabas.client.cluster import GROUP, Cluster
from barnabas.client.connection import ConnectionLost
from barnabas.client.errors import CoordinatorError, KafkaError, KafkaTimeoutError, StaleMetadataError, error_of
from barnabas.client.lifetime import Lifetime
from barnabas.client.settings import AdminConfig
from barnabas.errors import ErrorCode
from barnabas.protocol.message import Message
from barnabas.runtime.interfaces import Runtime
from barnabas.types import BrokerId, TopicPartition

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
T = TypeVar("T")

# A topic made a moment ago is not known to every broker yet; one that is not known for so long does not exist.
UNKNOWN_TOPIC_GRACE_MS = 1_000
RETRIED = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.REBALANCE_IN_PROGRESS,
    }
)
UNKNOWN_TOPIC = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)

Route = Callable[[list[K]], Awaitable[tuple[dict[BrokerId, list[K]], dict[K, KafkaError]]]]
Ask = Callable[[BrokerId, list[K]], Awaitable[Results[K, V]]]


class AdminBase(Lifetime):
    """`async with Admin(bootstrap_servers="localhost:9092") as admin:`"""

    def __init__(self, *, runtime: Runtime | None = None, **settings: Any) -> None:
        self.config = AdminConfig(**settings)
        self.cluster = Cluster(self.config, runtime=runtime)

    async def start(self) -> None:
        """Finds the brokers. BrokersUnreachableError where none answers within request_timeout_ms."""
        await self.cluster.start(min(self.config.request_timeout_ms, self.config.default_api_timeout_ms))

    async def close(self) -> None:
        await self.cluster.close()

    # One question

    async def ask_controller(
        self, message: Message, *, what: str, timeout_ms: float | None = None, version_min: int = 0
    ) -> Any:
        """A question that has one answer. An answer with an error at its top is that error."""

        async def attempt() -> Any:
            node_id = await self.cluster.controller()
            response = await self.cluster.request(node_id, message, version_min=version_min)
            code = getattr(response, "error_code", ErrorCode.NONE)
            if code != ErrorCode.NONE:
                raise error_of(code, getattr(response, "error_message", None), about=what)
            return response

        return await self.cluster.retry(attempt, what=what, timeout_ms=self.within_ms(timeout_ms))

    def within_ms(self, timeout_ms: float | None) -> float:
        return self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms

    # Many things

    async def carry_out(
        self, items: Iterable[K], route: Route[K], ask: Ask[K, V], *, what: str, timeout_ms: float | None = None
    ) -> Results[K, V]:
        clock = self.cluster.runtime.clock
        timeout_ms = self.within_ms(timeout_ms)
        began_ms = clock.monotonic_ms()
        results: Results[K, V] = Results()
        asked = pending = list(dict.fromkeys(items))
        failures = 0
        while pending:
            left_ms = began_ms + timeout_ms - clock.monotonic_ms()
            found: Results[K, V] = Results()
            try:
                async with asyncio.timeout(max(left_ms, 0) / 1000):
                    await self._attempt(pending, route, ask, found)
            except TimeoutError:
                before = results.failed  # of those that failed already, the reason says more than the time
                silent = [key for key in pending if key not in found.done and key not in found.failed]
                found.merge(Results({}, {key: _out_of_time(what, timeout_ms, before.get(key)) for key in silent}))
            results.failed = {key: error for key, error in results.failed.items() if key not in found.done}
            results.merge(found)
            waited_ms = clock.monotonic_ms() - began_ms
            pause_ms = self.cluster.pause_ms(failures)
            failures += 1
            pending = [key for key, error in found.failed.items() if _may_pass(error, waited_ms)]
            if waited_ms + pause_ms >= timeout_ms:
                for key in pending:
                    results.failed[key] = _out_of_time(what, timeout_ms, found.failed[key])
                break
            if pending:
                await clock.sleep(pause_ms)
        return results.in_order_of(asked)

    async def _attempt(self, pending: list[K], route: Route[K], ask: Ask[K, V], found: Results[K, V]) -> None:
        """What is found is there as it is found: a broker that does not answer takes nothing from the others."""
        try:
            routed, unrouted = await route(pending)
        except KafkaError as error:
            found.merge(failed_all(pending, error))
            return
        found.failed.update(unrouted)
        await asyncio.gather(*(self._part(node_id, keys, ask, found) for node_id, keys in routed.items()))

    async def _part(self, node_id: BrokerId, keys: list[K], ask: Ask[K, V], found: Results[K, V]) -> None:
        try:
            part = await ask(node_id, keys)
        except KafkaError as error:
            found.merge(failed_all(keys, error))
            return
        for key in keys:
            if key not in part.done and key not in part.failed:
                part.failed[key] = error_of(ErrorCode.UNKNOWN_SERVER_ERROR, f"{key}: the broker's answer leaves it out")
        found.merge(part)

    # Who is responsible

    async def to_controller(self, items: list[K]) -> tuple[dict[BrokerId, list[K]], dict[K, KafkaError]]:
        self.cluster.metadata.controller_id = -1  # whoever it was: this may be a second attempt
        return {await self.cluster.controller(): items}, {}

    async def to_leaders(
        self, items: list[TopicPartition]
    ) -> tuple[dict[BrokerId, list[TopicPartition]], dict[TopicPartition, KafkaError]]:
        await self.cluster.refresh(sorted({item.topic for item in items}))
        routed: dict[BrokerId, list[TopicPartition]] = {}
        unrouted: dict[TopicPartition, KafkaError] = {}
        for item in items:
            topic = self.cluster.topic(item.topic)
            leader = self.cluster.leader(*item)
            if leader is not None:
                routed.setdefault(leader.node_id, []).append(item)
            elif topic is None or item.partition not in topic.partitions:
                code = self.cluster.metadata.errors.get(item.topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                unrouted[item] = error_of(code, about=_partition(item))
            else:
                unrouted[item] = error_of(
                    ErrorCode.LEADER_NOT_AVAILABLE, "it has no leader now", about=_partition(item)
                )
        return routed, unrouted

    async def to_coordinators(
        self, items: list[str], kind: int = GROUP
    ) -> tuple[dict[BrokerId, list[str]], dict[str, KafkaError]]:
        routed: dict[BrokerId, list[str]] = {}
        unrouted: dict[str, KafkaError] = {}
        for item in items:
            try:
                routed.setdefault(await self.cluster.coordinator(kind, item), []).append(item)
            except KafkaTimeoutError:
                raise
            except KafkaError as error:
                unrouted[item] = error
        return routed, unrouted

    def heed(self, results: Results[str, V], kind: int = GROUP) -> Results[str, V]:
        """Where a broker says that it coordinates something no longer, somebody else is looked for."""
        for key, error in results.failed.items():
            if isinstance(error, CoordinatorError | ConnectionLost):
                self.cluster.forget_coordinator(kind, key)
        return results

    async def to_themselves(
        self, items: list[BrokerId]
    ) -> tuple[dict[BrokerId, list[BrokerId]], dict[BrokerId, KafkaError]]:
        """Questions about brokers go to these."""
        if any(item not in self.cluster.brokers for item in items):
            await self.cluster.refresh(())
        unknown = [item for item in items if item not in self.cluster.brokers]
        errors = {item: error_of(ErrorCode.BROKER_ID_NOT_REGISTERED, about=f"broker {item}") for item in unknown}
        return {item: [item] for item in items if item not in errors}, errors

    async def of_all_brokers(
        self, ask: Ask[BrokerId, V], *, what: str, timeout_ms: float | None = None
    ) -> Results[BrokerId, V]:
        """A question to each broker that there is. The time includes that for the list of them."""
        clock = self.cluster.runtime.clock
        timeout_ms = self.within_ms(timeout_ms)
        deadline_ms = clock.monotonic_ms() + timeout_ms
        await self.cluster.retry(lambda: self.cluster.refresh(()), what="the list of brokers", timeout_ms=timeout_ms)
        left_ms = max(deadline_ms - clock.monotonic_ms(), 0)
        brokers = sorted(self.cluster.brokers)
        return await self.carry_out(brokers, self.to_themselves, ask, what=what, timeout_ms=left_ms)


def listed(given: Iterable[T], what: str) -> list[T]:
    """TypeError for a text, whose letters would each be taken for a name."""
    if isinstance(given, str):
        raise TypeError(f"{what} must be a list, not the text {given!r}")
    return list(given)


def by_topic(items: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, partition in items:
        found.setdefault(topic, []).append(partition)
    return found


def _partition(item: TopicPartition) -> str:
    return f"partition {item}"


def _may_pass(error: KafkaError, waited_ms: float) -> bool:
    if isinstance(error, KafkaTimeoutError):
        return False
    if error.code in UNKNOWN_TOPIC:
        return waited_ms < UNKNOWN_TOPIC_GRACE_MS
    return error.code in RETRIED or isinstance(error, StaleMetadataError | CoordinatorError)


def _out_of_time(what: str, timeout_ms: float, last: KafkaError | None) -> KafkaError:
    if last is not None and last.code in UNKNOWN_TOPIC:
        return last
    timed_out = KafkaTimeoutError(f"{what}: not within {timeout_ms:.0f} ms{'' if last is None else f': {last}'}")
    timed_out.__cause__ = last
    return timed_out
