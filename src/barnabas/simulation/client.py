"""A small client that speaks the real protocol: connections, requests, and where the leaders are.

Always holds: answers come to whoever asked; a connection that ends ends all that was asked on it. A request that takes
too long ends its connection, as real clients do, because what it might still bring about is unknown.
Does not know: what requests mean, apart from Metadata. It retries nothing by itself.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from barnabas.errors import ErrorCode
from barnabas.protocol.apis import response_class
from barnabas.protocol.framing import (
    Output,
    decode_response_header,
    encode_request_header,
    response_header_version,
)
from barnabas.protocol.message import Message
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.runtime.interfaces import Address, Network, Socket
from barnabas.simulation.loop import VirtualClock, VirtualLoop
from barnabas.types import BrokerId, Uuid

METADATA_VERSION = 13
LENGTH_BYTES = 4
SCRATCH_BYTES = 1 << 16


class Unavailable(Exception):
    """No answer: whether the request was carried out is unknown."""


class ClientConnection:
    def __init__(self, loop: VirtualLoop, socket: Socket, client_id: str) -> None:
        self._loop = loop
        self._socket = socket
        self._client_id = client_id
        self._pending: dict[int, tuple[int, int, asyncio.Future[Any]]] = {}  # correlation id: key, version, answer
        self._next_correlation_id = 0
        self._received = bytearray()
        self._unsent = bytearray()
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self.is_closed = False
        socket.on_readable(self._readable)

    def ask(self, request: Message, version: int) -> "asyncio.Future[Any]":
        """The answer, or Unavailable. A request that is never answered (acks=0) must not be waited for."""
        future: asyncio.Future[Any] = self._loop.create_future()
        if self.is_closed:
            future.set_exception(Unavailable("the connection is closed"))
            return future
        self._next_correlation_id += 1
        body = Output()
        encode_request_header(body, request.API_KEY, version, self._next_correlation_id, self._client_id)
        request.encode(body, version)
        self._pending[self._next_correlation_id] = (request.API_KEY, version, future)
        self._unsent += len(body).to_bytes(LENGTH_BYTES, "big") + body
        self._write()
        return future

    def tell(self, request: Message, version: int) -> None:
        """For requests that get no answer, or one that nobody waits for."""
        self.ask(request, version)
        self._pending.pop(self._next_correlation_id, None)

    def close(self, reason: str = "closed") -> None:
        if self.is_closed:
            return
        self.is_closed = True
        self._socket.close()
        pending, self._pending = self._pending, {}
        for _key, _version, future in pending.values():
            if not future.done():
                future.set_exception(Unavailable(reason))
                future.exception()  # seen: not everybody who asked still waits

    def _write(self) -> None:
        try:
            while self._unsent:
                sent = self._socket.send(self._unsent)
                del self._unsent[:sent]
            self._socket.on_writable(None)
        except BlockingIOError:
            self._socket.on_writable(self._write)
        except OSError as error:
            self.close(str(error))

    def _readable(self) -> None:
        try:
            count = self._socket.receive_into(self._scratch)
        except BlockingIOError:
            return
        except OSError as error:
            self.close(str(error))
            return
        if count == 0:
            self.close("the broker hung up")
            return
        self._received += self._scratch[:count]
        while len(self._received) >= LENGTH_BYTES:
            size = LENGTH_BYTES + int.from_bytes(self._received[:LENGTH_BYTES], "big")
            if len(self._received) < size:
                return
            frame = memoryview(bytes(self._received[LENGTH_BYTES:size]))
            del self._received[:size]
            self._answered(frame)

    def _answered(self, frame: memoryview) -> None:
        correlation_id = int.from_bytes(frame[:4], "big")
        if correlation_id not in self._pending:
            return
        api_key, version, future = self._pending.pop(correlation_id)
        answered, position = decode_response_header(frame, 0, response_header_version(api_key, version))
        assert answered == correlation_id
        response, end = response_class(api_key).decode(frame, position, version)
        assert end == len(frame), f"{len(frame) - end} bytes too many in an answer to API {api_key}"
        if not future.done():
            future.set_result(response)


@dataclass(frozen=True, slots=True)
class Leader:
    node_id: BrokerId
    epoch: int


@dataclass(slots=True)
class ClusterView:
    """What the last Metadata answers said."""

    brokers: dict[BrokerId, Address] = field(default_factory=dict)
    leaders: dict[tuple[Uuid, int], Leader] = field(default_factory=dict)
    epochs: dict[tuple[Uuid, int], int] = field(default_factory=dict)  # the newest leader's that was ever heard of
    names: dict[str, Uuid] = field(default_factory=dict)
    partition_counts: dict[Uuid, int] = field(default_factory=dict)


class Client:
    """One host with its connections."""

    def __init__(
        self,
        *,
        loop: VirtualLoop,
        clock: VirtualClock,
        network: Network,
        random: Random,
        name: str,
        bootstrap: Sequence[Address],
        timeout_ms: float,
    ) -> None:
        self.name = name
        self.clock = clock
        self.random = random
        self.timeout_ms = timeout_ms
        self.view = ClusterView()
        self._loop = loop
        self._network = network
        self.bootstrap = list(bootstrap)
        self._connections: dict[Address, ClientConnection] = {}

    async def connection(self, address: Address) -> ClientConnection:
        found = self._connections.get(address)
        if found is not None and not found.is_closed:
            return found
        if found is not None:
            self.view.leaders.clear()  # as real clients do: something has changed, so ask who leads
        try:
            socket = await self._network.connect(*address)
        except OSError as error:
            raise Unavailable(str(error)) from error
        made = self._connections[address] = ClientConnection(self._loop, socket, self.name)
        return made

    async def to_node(self, node_id: BrokerId) -> ClientConnection:
        address = self.view.brokers.get(node_id)
        if address is None:
            raise Unavailable(f"node {node_id} is not known")
        return await self.connection(address)

    async def answer(self, connection: ClientConnection, future: "asyncio.Future[Any]", timeout_ms: float = 0) -> Any:
        """Waits; after too long the connection is given up."""
        try:
            return await self.clock.within(timeout_ms or self.timeout_ms, future)
        except TimeoutError:
            connection.close("timed out")
            raise Unavailable("timed out") from None

    async def call(self, connection: ClientConnection, request: Message, version: int) -> Any:
        return await self.answer(connection, connection.ask(request, version))

    async def call_any(self, request: Message, version: int) -> Any:
        """Any broker will do."""
        addresses = list(dict.fromkeys([*self.bootstrap, *self.view.brokers.values()]))
        return await self.call(await self.connection(self.random.choice(addresses)), request, version)

    async def refresh(self, names: Sequence[str]) -> None:
        """Asks one broker about these topics. What it does not know is not in the view afterwards."""
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False
        )
        response = await self.call_any(request, METADATA_VERSION)
        view = self.view
        view.brokers = {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
        for topic in response.topics:
            known = view.names.pop(topic.name, None)
            if known is not None:
                view.leaders = {key: leader for key, leader in view.leaders.items() if key[0] != known}
            if topic.error_code != ErrorCode.NONE:
                continue
            view.names[topic.name] = topic.topic_id
            view.partition_counts[topic.topic_id] = len(topic.partitions)
            for partition in topic.partitions:
                key = (topic.topic_id, partition.partition_index)
                # As real clients do (KIP-320): a broker that is cut off tells of leaders that are none any more.
                if partition.leader_id >= 0 and partition.leader_epoch >= view.epochs.get(key, 0):
                    view.leaders[key] = Leader(partition.leader_id, partition.leader_epoch)
                    view.epochs[key] = partition.leader_epoch

    async def leader_connection(self, topic: str, topic_id: Uuid, partition: int) -> ClientConnection:
        """To the leader as far as is known, asking anew where it is not."""
        leader = self.view.leaders.get((topic_id, partition))
        if leader is None:
            await self.refresh([topic])
            leader = self.view.leaders.get((topic_id, partition))
        if leader is None:
            raise Unavailable(f"{topic}-{partition} has no leader")
        return await self.to_node(leader.node_id)

    def forget_leader(self, topic_id: Uuid, partition: int) -> None:
        self.view.leaders.pop((topic_id, partition), None)

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
