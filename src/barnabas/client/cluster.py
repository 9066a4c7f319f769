"""A cluster as a client knows it: its brokers, topics, leaders and coordinators, and the connections to them.

One connection for each purpose and broker. A purpose is something that must not wait behind something else: a fetch
that waits for records never holds back a heartbeat. Versions are agreed upon with each broker as it is connected to.
Always holds: every call ends within its time, with an answer or a KafkaError; when no known broker can be reached, the
bootstrap servers are asked again. Does not know: what requests other than Metadata and FindCoordinator mean.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from re import Pattern
from typing import TYPE_CHECKING, Any, Final, TypeVar

from barnabas import __version__
from barnabas.client.connection import ClientConnection, ConnectionLost
from barnabas.client.errors import (
    AuthenticationError,
    BrokersUnreachableError,
    ClientClosedError,
    CoordinatorError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    StaleMetadataError,
    UnsupportedVersionError,
    error_of,
)
from barnabas.client.lifetime import Lifetime
from barnabas.client.metadata import ClusterMetadata, Leader, Node, TopicMetadata
from barnabas.client.peer import Patience, Peer
from barnabas.client.settings import ClientConfig
from barnabas.errors import ErrorCode
from barnabas.protocol import apis
from barnabas.protocol.message import EncodeError, Message
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.runtime.frame_reader import FrameBuffers
from barnabas.runtime.interfaces import Address, Runtime
from barnabas.types import BrokerId

if TYPE_CHECKING:  # loaded where it is wanted
    from barnabas.client.security import Security

T = TypeVar("T")

ANY: Final[BrokerId] = -1
FIRST_BOOTSTRAP_ID: Final[BrokerId] = -2  # bootstrap servers count downwards from here, until their ids are known
GROUP: Final = 0  # kinds of coordinators, as FindCoordinator has them
TRANSACTION: Final = 1
GENERAL: Final = ""  # the purpose of short requests
TRANSACTION_VERSION: Final = "transaction.version"
REFRESH_MS_MAX: Final = 5000  # a broker that says nothing of metadata for so long hangs: another is asked
_JITTER: Final = 0.2


@dataclass(frozen=True, slots=True)
class Versions:
    """What one broker serves."""

    ranges: dict[int, tuple[int, int]]

    def best(self, api_key: int, least: int = 0, most: int | None = None) -> int:
        """The newest version that both sides know. `least` may name one that Kafka calls unstable."""
        api = apis.api(api_key)
        ceiling = api.max_version if least > api.max_stable_version else api.max_stable_version
        first, last = self.ranges.get(api_key, (0, -1))
        version = min(last, ceiling) if most is None else min(last, ceiling, most)
        if version < max(first, api.min_version, least):
            words = f"versions {first} to {last}" if last >= 0 else "no version"
            raise UnsupportedVersionError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"the broker serves {words} of {api.name}, and version {max(api.min_version, least)} is needed: "
                "it is too old, too new, or has the feature switched off",
            )
        return version


class Cluster(Lifetime):
    def __init__(self, config: ClientConfig, *, runtime: Runtime | None = None) -> None:
        self.config = config
        self.metadata = ClusterMetadata()
        self.features: dict[str, int] = {}  # finalised ones and their levels, as the newest answer has them
        self._features_epoch = -1
        self._runtime = runtime
        self._buffers = FrameBuffers()
        self._peers: dict[tuple[BrokerId, str], Peer] = {}
        self._versions: dict[BrokerId, Versions] = {}
        self._coordinators: dict[tuple[int, str], BrokerId] = {}
        self._bootstrap: dict[BrokerId, Address] = {
            FIRST_BOOTSTRAP_ID - number: address for number, address in enumerate(config.bootstrap_servers)
        }
        self._security = _security(config, lambda: self.runtime)
        self._refreshed_ms = float("-inf")
        self._is_started = False
        self._is_closed = False
        self._loop: asyncio.AbstractEventLoop | None = None  # the one that it was started in, and works in

    # Beginning and end

    @property
    def runtime(self) -> Runtime:
        if self._runtime is None:
            from barnabas.client.world import running_world

            self._runtime = running_world()
        return self._runtime

    async def start(self, timeout_ms: float | None = None) -> None:
        """Finds the brokers. BrokersUnreachableError where none answers in time."""
        if self._is_closed:
            raise ClientClosedError("this client is closed; make a new one")
        if self._is_started:
            return
        self._loop = asyncio.get_running_loop()
        timeout_ms = self.config.request_timeout_ms if timeout_ms is None else timeout_ms
        try:
            await self.retry(lambda: self.refresh(()), timeout_ms=timeout_ms, what="finding the brokers")
        except KafkaTimeoutError as error:
            reason = error.__cause__ or "no answer"
            raise BrokersUnreachableError(
                f"no broker answered at {self._servers()} within {timeout_ms:.0f} ms: {reason}; "
                "check bootstrap_servers, and that a broker runs there"
            ) from error
        self._is_started = True

    async def close(self) -> None:
        self._is_closed = True
        for peer in self._peers.values():
            peer.close()
        self._peers.clear()

    def check_loop(self) -> None:
        """Its connections wake nobody in another event loop: calls would wait there for what never comes."""
        if self._loop is not None and asyncio.get_running_loop() is not self._loop:
            raise IllegalStateError(
                "this client was started in another event loop; use it there, or make one for each loop"
            )

    def _servers(self) -> str:
        return ", ".join(f"{host}:{port}" for host, port in self.config.bootstrap_servers)

    # What is known

    @property
    def brokers(self) -> dict[BrokerId, Node]:
        return self.metadata.brokers

    def topic(self, name: str) -> TopicMetadata | None:
        return self.metadata.topics.get(name)

    def leader(self, topic: str, partition: int) -> Leader | None:
        return self.metadata.leader(topic, partition)

    @property
    def metadata_age_ms(self) -> float:
        return self.runtime.clock.monotonic_ms() - self._refreshed_ms

    async def refresh(
        self, topics: Iterable[str] | None, *, timeout_ms: float | None = None, allow_auto_topic_creation: bool = False
    ) -> None:
        """Asks one broker about these topics, or about all. One attempt; what it says of each is in `metadata`."""
        names = None if topics is None else list(topics)
        request = MetadataRequest(
            topics=None if names is None else [MetadataRequestTopic(name=name) for name in names],
            allow_auto_topic_creation=allow_auto_topic_creation,
        )
        timeout_ms = min(self.config.request_timeout_ms, REFRESH_MS_MAX) if timeout_ms is None else timeout_ms
        response = await self.request(ANY, request, timeout_ms=timeout_ms, version_min=1)
        if getattr(response, "error_code", 0) == ErrorCode.REBOOTSTRAP_REQUIRED:
            self._forget_brokers()
            raise error_of(ErrorCode.LEADER_NOT_AVAILABLE, "the broker says to begin anew at the bootstrap servers")
        for node_id in self.metadata.apply(response, everything=names is None):
            self._disconnect(node_id)
        if names != []:
            self._refreshed_ms = self.runtime.clock.monotonic_ms()

    async def topics(
        self,
        names: Iterable[str] | None = None,
        pattern: Pattern[str] | None = None,
        *,
        timeout_ms: float | None = None,
        allow_auto_topic_creation: bool = False,
    ) -> dict[str, TopicMetadata]:
        """These topics, waited for until each has a leader for every partition, or all that match the pattern.

        UnknownTopicError where one does not come to exist in time.
        """
        wanted = None if names is None else list(names)

        async def ask() -> dict[str, TopicMetadata]:
            await self.refresh(wanted, allow_auto_topic_creation=allow_auto_topic_creation)
            for name in wanted or ():
                error = self.metadata.errors.get(name)
                if error is not None:
                    raise error_of(error, about=f"topic {name}")
            known = self.metadata.topics
            if wanted is not None:
                return {name: known[name] for name in wanted if name in known}
            return {name: known[name] for name in known if pattern is None or pattern.fullmatch(name)}

        what = "topics" if wanted is None else f"topic {', '.join(wanted)}"
        return await self.retry(ask, timeout_ms=timeout_ms, what=f"metadata of {what}")

    # Requests

    async def request(
        self,
        node_id: BrokerId,
        message: Message,
        *,
        timeout_ms: float | None = None,
        purpose: str = GENERAL,
        version_min: int = 0,
        version_max: int | None = None,
    ) -> Any:
        """Asks this broker, or ANY, once. ConnectionLost where it cannot be reached or does not answer in time.

        `version_min` and `version_max` bound the version where the message means something only within them.
        """
        self.check_loop()
        timeout_ms = self.config.request_timeout_ms if timeout_ms is None else timeout_ms
        deadline_ms = self.runtime.clock.monotonic_ms() + timeout_ms
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                if node_id == ANY:
                    node_id = await self._reachable(purpose)
                peer = self.peer(node_id, purpose)
                connection = peer.connection or await peer.connected()
        except TimeoutError:
            raise ConnectionLost(f"no connection to {self._name(node_id)} within {timeout_ms:.0f} ms") from None
        version = self._versions[node_id].best(type(message).API_KEY, version_min, version_max)
        left_ms = max(deadline_ms - self.runtime.clock.monotonic_ms(), 1)
        try:
            asked = connection.request(message, version, left_ms)
        except EncodeError as error:
            raise IllegalStateError(f"this cannot be asked of a broker: {error}") from error
        answer = await asked
        peer.succeeded()
        return answer

    async def connected(self, node_id: BrokerId, purpose: str = GENERAL) -> tuple[ClientConnection, Versions]:
        """A connection for who sends more than one request at a time, and what may be sent on it."""
        connection = await self.peer(node_id, purpose).connected()
        return connection, self._versions[node_id]

    def peer(self, node_id: BrokerId, purpose: str = GENERAL) -> Peer:
        if self._is_closed:
            raise ClientClosedError("this client is closed; make a new one")
        found = self._peers.get((node_id, purpose))
        if found is None:
            config = self.config
            found = self._peers[node_id, purpose] = Peer(
                address=lambda: self._address_of(node_id),
                runtime=self.runtime,
                client_id=config.client_id,
                buffers=self._buffers,
                patience=Patience(
                    request_timeout_ms=config.request_timeout_ms,
                    connect_timeout_ms=config.socket_connection_setup_timeout_ms,
                    backoff_ms=config.reconnect_backoff_ms,
                    backoff_ms_max=config.reconnect_backoff_max_ms,
                    jitter=_JITTER,
                ),
                on_lost=lambda: self._lost(node_id),
                on_answer=_nothing,
                greet=lambda connection: self._greet(node_id, connection),
                secure=None if self._security is None else self._security.secure,
            )
        return found

    async def _greet(self, node_id: BrokerId, connection: ClientConnection) -> None:
        security = self._security
        try:
            await self._learn_versions(node_id, connection)
            if security is not None:
                await security.authenticate(connection, self._versions[node_id].best, self._name(node_id))
        except ConnectionLost as lost:
            if security is not None:
                security.explain(lost, self._name(node_id))
            raise

    async def _learn_versions(self, node_id: BrokerId, connection: ClientConnection) -> None:
        """What the broker serves. One that does not know our newest question is asked the oldest."""
        request = ApiVersionsRequest(client_software_name="barnabas", client_software_version=__version__)
        timeout_ms = self.config.request_timeout_ms
        for version in (apis.api(ApiVersionsRequest.API_KEY).max_stable_version, 0):
            response = await connection.request(request, version, timeout_ms)
            if response.error_code != ErrorCode.UNSUPPORTED_VERSION:
                break
        if response.error_code != ErrorCode.NONE:
            raise error_of(response.error_code, about=self._name(node_id))
        ranges = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
        self._versions[node_id] = Versions(ranges)
        if response.finalized_features_epoch >= self._features_epoch:
            self._features_epoch = response.finalized_features_epoch
            self.features = {each.name: each.max_version_level for each in response.finalized_features}

    async def _reachable(self, purpose: str) -> BrokerId:
        """Any broker that is connected, or can be: those that failed least come first."""
        pending: dict[BrokerId, int] = {}
        for node_id in self.metadata.brokers:
            found = self._peers.get((node_id, purpose))
            if found is not None and found.connection is not None:
                pending[node_id] = found.connection.pending
        if pending:
            return min(pending, key=pending.__getitem__)  # one that keeps others waiting may be one that hangs
        last: KafkaError | None = None
        for node_id in self._candidates(purpose):
            try:
                await self.peer(node_id, purpose).connected()
                return node_id
            except AuthenticationError:
                raise  # the others would say the same
            except KafkaError as error:
                last = error
        if self.config.metadata_recovery_strategy == "rebootstrap":
            self._forget_brokers()
        raise last if last is not None else ConnectionLost("no broker is known")

    def _candidates(self, purpose: str) -> list[BrokerId]:
        known = list(self.metadata.brokers) or list(self._bootstrap)
        start = self.runtime.random.randrange(len(known))
        known = known[start:] + known[:start]
        return sorted(known, key=lambda node_id: self.peer(node_id, purpose).failures)

    def _address_of(self, node_id: BrokerId) -> Address | None:
        node = self.metadata.brokers.get(node_id)
        return self._bootstrap.get(node_id) if node is None else (node.host, node.port)

    def _name(self, node_id: BrokerId) -> str:
        address = self._address_of(node_id)
        if address is None:
            return "any broker" if node_id == ANY else f"broker {node_id}"
        where = f"{address[0]}:{address[1]}"
        return f"broker {node_id} at {where}" if node_id >= 0 else where

    def _lost(self, node_id: BrokerId) -> None:
        for key in [key for key, coordinator in self._coordinators.items() if coordinator == node_id]:
            del self._coordinators[key]

    def _disconnect(self, node_id: BrokerId) -> None:
        for (known_id, _purpose), peer in list(self._peers.items()):
            if known_id == node_id:
                peer.disconnect()

    def _forget_brokers(self) -> None:
        """Where they are; what is known of topics stays until a broker says otherwise."""
        self.metadata.brokers = {}

    # Who is responsible

    async def coordinator(self, kind: int, key: str, *, timeout_ms: float | None = None) -> BrokerId:
        """Of a GROUP or of a TRANSACTION, from memory where it is known."""
        found = self._coordinators.get((kind, key))
        if found is not None:
            return found
        return await self.retry(
            lambda: self._find_coordinator(kind, key), timeout_ms=timeout_ms, what=f"the coordinator of {key}"
        )

    def forget_coordinator(self, kind: int, key: str) -> None:
        self._coordinators.pop((kind, key), None)

    async def _find_coordinator(self, kind: int, key: str) -> BrokerId:
        node_id = await self._reachable(GENERAL)
        version = self._versions[node_id].best(FindCoordinatorRequest.API_KEY)
        if version >= 4:
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        else:
            request = FindCoordinatorRequest(key_type=kind, key=key)
        response = await self.request(node_id, request, version_max=version)
        found = response.coordinators[0] if version >= 4 else response
        if found.error_code != ErrorCode.NONE:
            raise error_of(found.error_code, found.error_message, about=f"the coordinator of {key}")
        if found.node_id not in self.metadata.brokers:
            self.metadata.add_brokers([Node(found.node_id, found.host, found.port)])
        self._coordinators[kind, key] = found.node_id
        return int(found.node_id)

    async def controller(self, *, timeout_ms: float | None = None) -> BrokerId:
        """Who takes requests for the controller: in KRaft any broker passes them on."""

        async def ask() -> BrokerId:
            if self.metadata.controller_id not in self.metadata.brokers:
                await self.refresh(())
            if self.metadata.controller_id not in self.metadata.brokers:
                raise error_of(ErrorCode.NOT_CONTROLLER, "no controller is known at the moment")
            return self.metadata.controller_id

        return await self.retry(ask, timeout_ms=timeout_ms, what="the controller")

    # Trying again

    async def retry(
        self,
        attempt: Callable[[], Awaitable[T]],
        *,
        what: str,
        timeout_ms: float | None = None,
        topics: Iterable[str] = (),
        coordinator: tuple[int, str] | None = None,
    ) -> T:
        """Repeats on retriable errors, with a pause that doubles, and refreshes what such an error says is stale.

        KafkaTimeoutError when the time is up, with the last failure as its cause; any other error at once.
        """
        clock, config = self.runtime.clock, self.config
        timeout_ms = config.request_timeout_ms if timeout_ms is None else timeout_ms
        deadline_ms = clock.monotonic_ms() + timeout_ms
        failures = 0
        last: KafkaError | None = None
        while True:
            if self._is_closed:
                raise ClientClosedError("this client is closed; make a new one")
            try:
                async with asyncio.timeout(max(deadline_ms - clock.monotonic_ms(), 0) / 1000):
                    if last is not None:
                        await self._freshen(last, topics, coordinator)
                    return await attempt()
            except KafkaError as error:
                if not error.retriable or isinstance(error, ClientClosedError):
                    raise
                last = error
            except TimeoutError:
                raise _timed_out(what, timeout_ms, last) from last
            pause_ms = self.pause_ms(failures)
            failures += 1
            if clock.monotonic_ms() + pause_ms >= deadline_ms:
                raise _timed_out(what, timeout_ms, last) from last
            await clock.sleep(pause_ms)

    def pause_ms(self, failures: int) -> float:
        """Before a request that failed so often is tried again."""
        config = self.config
        pause_ms: float = min(config.retry_backoff_ms * 2 ** min(failures, 20), config.retry_backoff_max_ms)
        return pause_ms * self.runtime.random.uniform(1 - _JITTER, 1 + _JITTER)

    async def _freshen(self, error: KafkaError, topics: Iterable[str], coordinator: tuple[int, str] | None) -> None:
        if coordinator is not None and isinstance(error, CoordinatorError | ConnectionLost):
            if error.code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                self.forget_coordinator(*coordinator)
        elif isinstance(error, StaleMetadataError | ConnectionLost) and (names := list(topics)):
            await self.refresh(names)
        elif error.code == ErrorCode.NOT_CONTROLLER:
            self.metadata.controller_id = ANY


def _security(config: ClientConfig, runtime: Callable[[], Runtime]) -> "Security | None":
    """None where connections are plain; then nothing of it is loaded."""
    if config.security_protocol == "PLAINTEXT":
        return None
    from barnabas.client.security import Security

    return Security(config, runtime)


def _timed_out(what: str, timeout_ms: float, last: KafkaError | None) -> KafkaError:
    if last is not None and last.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return error_of(last.code, last.message)
    return KafkaTimeoutError(f"{what}: not within {timeout_ms:.0f} ms{'' if last is None else f': {last}'}")


def _nothing() -> None:
    """Clients keep no record of who answered."""
