"""A client of raw sockets: speaks Kafka's frames exactly as told, right or wrong.

Holds: every wait ends, with an answer, with a closed connection, or by failing the test.
Does not know: which broker answers. Messages are encoded by the code under test, whose bytes are checked elsewhere
against two independent codecs.
"""

from __future__ import annotations

import itertools
import socket
import struct
from types import TracebackType
from typing import Any

from barnabas.protocol.apis import response_class
from barnabas.protocol.framing import Output, decode_response_header, encode_request_header, response_header_version
from barnabas.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.record_batch import HEADER_BYTES, Record, decode_records, encode_batch, read_header

WAIT_SECONDS_MAX = 120.0
CLIENT_ID = "wire"
PRODUCE_VERSION = 12  # the last one that names topics by name
FETCH_VERSION = 12  # likewise
CREATE_TOPICS_VERSION = 7
METADATA_VERSION = 12


class Closed(Exception):
    """The broker closed the connection."""


class Wire:
    """One connection. `with Wire("127.0.0.1:9092") as wire: response = wire.call(request, version)`."""

    def __init__(
        self, address: str, *, receive_buffer_bytes: int | None = None, wait_seconds: float = WAIT_SECONDS_MAX
    ) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.socket.settimeout(wait_seconds)
        try:
            self.socket.connect((host, int(port)))
        except OSError:
            self.socket.close()
            raise
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_ids = itertools.count(1)
        self._received = bytearray()

    def __enter__(self) -> Wire:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    # Out

    def send_bytes(self, data: bytes | bytearray) -> None:
        self.socket.sendall(data)

    def send(self, request: Any, version: int) -> int:
        """The correlation id."""
        correlation_id = next(self._correlation_ids)
        self.send_bytes(encode_request(request, version, correlation_id))
        return correlation_id

    # In

    def receive_frame(self) -> bytes:
        (size,) = struct.unpack(">i", self._receive_exactly(4))
        return self._receive_exactly(size)

    def receive(self, api_key: int, version: int) -> tuple[int, Any]:
        """Correlation id and decoded response."""
        view = memoryview(self.receive_frame())
        correlation_id, position = decode_response_header(view, 0, response_header_version(api_key, version))
        response, end = response_class(api_key).decode(view, position, version)
        assert end == len(view), f"{len(view) - end} bytes too many in a response to API {api_key}"
        return correlation_id, response

    def call(self, request: Any, version: int) -> Any:
        sent = self.send(request, version)
        answered, response = self.receive(request.API_KEY, version)
        assert answered == sent
        return response

    def is_closed_by_peer(self) -> bool:
        """Waits for the end of the stream; False if the broker answers instead."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def _receive_exactly(self, size: int) -> bytes:
        while len(self._received) < size:
            try:
                chunk = self.socket.recv(max(65536, size - len(self._received)))
            except ConnectionError as error:
                raise Closed(str(error)) from error
            if not chunk:
                raise Closed(f"after {len(self._received)} of {size} bytes")
            self._received += chunk
        data = bytes(self._received[:size])
        del self._received[:size]
        return data


def encode_request(request: Any, version: int, correlation_id: int, client_id: str | None = CLIENT_ID) -> bytes:
    body = Output()
    encode_request_header(body, request.API_KEY, version, correlation_id, client_id)
    request.encode(body, version)
    assert not body.splices
    return struct.pack(">i", len(body)) + bytes(body)


def header(api_key: int, version: int, correlation_id: int = 1, client_id: bytes = b"x") -> bytes:
    """A request header by hand, for keys and versions that do not exist. Version 1: no tagged fields."""
    return struct.pack(">hhih", api_key, version, correlation_id, len(client_id)) + client_id


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def batch(*values: bytes, timestamp_ms: int = 1_700_000_000_000, **settings: Any) -> bytearray:
    """A record batch of these values. `settings` as of `encode_batch`."""
    return encode_batch(
        [Record(number, timestamp_ms, None, value, []) for number, value in enumerate(values)], **settings
    )


def produce_request(topic: str, partitions: dict[int, bytes | bytearray], acks: int = -1) -> ProduceRequest:
    data = [PartitionProduceData(index=index, records=bytes(records)) for index, records in partitions.items()]
    return ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=data)])


def produce(wire: Wire, topic: str, partitions: dict[int, bytes | bytearray]) -> dict[int, Any]:
    """Partition responses by index."""
    response = wire.call(produce_request(topic, partitions), PRODUCE_VERSION)
    return {each.index: each for each in response.responses[0].partition_responses}


def fetch_request(
    topic: str,
    offsets: dict[int, int],
    *,
    wait_ms: int = 0,
    bytes_min: int = 1,
    bytes_max: int = 50 << 20,
    partition_bytes_max: int = 1 << 20,
) -> FetchRequest:
    partitions = [
        FetchPartition(
            partition=index, fetch_offset=offset, partition_max_bytes=partition_bytes_max, current_leader_epoch=-1
        )
        for index, offset in offsets.items()
    ]
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=bytes_min,
        max_bytes=bytes_max,
        session_id=0,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=partitions)],
    )


def fetch(wire: Wire, topic: str, offsets: dict[int, int], **settings: Any) -> dict[int, Any]:
    """Partition responses by index."""
    response = wire.call(fetch_request(topic, offsets, **settings), FETCH_VERSION)
    assert response.error_code == 0
    return {each.partition_index: each for topic in response.responses for each in topic.partitions}


def whole_records(records: Any) -> list[Record]:
    """Records of all complete batches; a fetch may end within a batch, which is then asked for again."""
    view = memoryview(records or b"")
    found: list[Record] = []
    position = 0
    while position + HEADER_BYTES <= len(view):
        size_bytes = read_header(view, position).size_bytes
        if position + size_bytes > len(view):
            break
        found += decode_records(view, position)
        position += size_bytes
    return found


def create_topic(wire: Wire, topic: str, partitions: int = 1, **config: str) -> None:
    configs = [CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in config.items()]
    created = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1, configs=configs)
    request = CreateTopicsRequest(topics=[created], timeout_ms=30_000)
    response = wire.call(request, CREATE_TOPICS_VERSION)
    assert response.topics[0].error_code == 0, response


def leaders(wire: Wire, topic: str) -> list[int]:
    """Leader of each partition as Metadata tells it; empty while the topic is not known."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    (found,) = wire.call(request, METADATA_VERSION).topics
    if found.error_code != 0:
        return []
    return [each.leader_id for each in sorted(found.partitions, key=lambda each: each.partition_index)]
